"""What is kept of models, told: as a table, and task by task."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from shutil import get_terminal_size

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..store import KeptExit, KeptPlan, ModelPlans
from ..store.plans import shown
from .layer_map import drawn


def table(found: Sequence[ModelPlans]) -> None:
    """A line for each skip plan and each exit preset."""
    rows = Table("model", "fingerprint", "task", "drafts with", box=None, pad_edge=False)
    for heading in ("layers", "agreement", "speed", "found"):
        rows.add_column(heading, justify="right", no_wrap=True)
    for plans in found:
        for task, draft, agreement, speeds, date in _lines(plans):
            names = (plans.model, plans.fingerprint[:12], shown(task), draft)
            rows.add_row(*map(Text, names), str(plans.layers), f"{agreement:.2f}", _span(speeds), date[:10])
    Console(width=None if sys.stdout.isatty() else 160).print(rows)


def _lines(plans: ModelPlans) -> Iterator[tuple[str, str, float, list[float], str]]:
    """Task, draft, agreement, speed on each machine, and date."""
    for task, plan in plans.tasks.items():
        left_out = f"skip: {len(plan.plan.skip_attn)} attn, {len(plan.plan.skip_mlp)} MLP out"
        yield task, left_out, plan.matchness, [promise.speed for promise in plan.promises.values()], plan.date
    for task, kept in plans.exits.items():
        draft = f"exit {kept.preset.layer}, {_drafted(kept)}"
        yield task, draft, kept.preset.agreement, list(kept.speeds.values()), kept.date


def _span(speeds: Sequence[float]) -> str:
    """Times plain decoding, over the machines it was seen on."""
    return "–".join(f"{speed:.2f}" for speed in sorted({min(speeds), max(speeds)})) if speeds else "-"


def descriptions(plans: ModelPlans) -> Iterator[str]:
    """All that is kept of a model, one after the other."""
    yield from (description(plans, task) for task in plans.tasks)
    yield from (exit_description(plans, task) for task in plans.exits)


def description(plans: ModelPlans, task: str) -> str:
    """One skip plan for a reader, in the width of the terminal."""
    kept = plans.task(task)
    drawing = drawn(kept.plan, get_terminal_size().columns, sys.stdout.encoding)
    return "\n".join([_heading(plans, task), "", drawing, "", *_figures(kept, plans.layers)])


def exit_description(plans: ModelPlans, task: str) -> str:
    """One exit preset for a reader."""
    return "\n".join([_heading(plans, task), "", *_exit_figures(plans.exit(task), plans.layers)])


def _heading(plans: ModelPlans, task: str) -> str:
    return f"{plans.model} ({plans.fingerprint[:12]}), {plans.layers} layers, task {shown(task)}"


def _figures(kept: KeptPlan, layers: int) -> Iterator[str]:
    plan, left = kept.plan, "nothing was left to try" if kept.settled else "the search goes on"
    yield f"leaves out {len(plan.skip_attn)} of {layers} attentions and {len(plan.skip_mlp)} of {layers} MLPs"
    yield f"matchness {kept.matchness:.2f}, acceptance {kept.acceptance:.2f}, seen on {kept.tokens} tokens; {left}"
    for machine, promise in kept.promises.items():
        yield f"{promise.speed:.2f} × plain decoding, {_long(promise.depth)}, on {machine}"
    yield f"found {kept.date} by skipstone {kept.version}"


def _exit_figures(kept: KeptExit, layers: int) -> Iterator[str]:
    preset = kept.preset
    yield f"exits after layer {preset.layer} of {layers}, {_drafted(kept)}; its head is {_head(preset.head)}"
    yield f"agreement {preset.agreement:.2f}, seen on {preset.tokens} tokens"
    for machine, speed in kept.speeds.items():
        yield f"{speed:.2f} × plain decoding, measured on {machine}"
    yield f"found {kept.date} by skipstone {kept.version}"


def _drafted(kept: KeptExit) -> str:
    depth, width = kept.preset.depth, kept.preset.width
    return _long(depth) if width == 1 else f"{_long(depth)}, {width} choices of each"


def _long(depth: int) -> str:
    return f"{depth} token{'s' * (depth != 1)} a draft"


def _head(head: str) -> str:
    return f"of {head} words" if head.isdecimal() else head
