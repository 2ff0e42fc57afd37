"""skipstone bench layerskip"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o
from .bench_run import carry_out, console, tell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from ..bench.efficiency import report as reports
    from ..bench.efficiency.part import Part

_Quick = Annotated[bool, typer.Option("--quick", help="Just see that it runs; the figures mean nothing.")]


def layerskip(
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="A folder, an adapter, a short name, …; unless given the one of this repository."
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="What it started from; unless given what the checkpoint says, or the default.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With gsm8k_test_200.jsonl, tinystories_train.jsonl.gz, wikitext2_valid.txt, spec_bench_60.jsonl.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="exits, decoding, dynamic, taps, assistant or one of their figures; repeatable."
        ),
    ] = None,
    quick: _Quick = False,
    cache: o.Cache = None,
    offline: o.Offline = False,
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """Judge a checkpoint trained for early exits against the model it started from, on texts held out of training.

    How often exits choose as the last layer does, what that cost the last layer, and what drafting with the best exit
    gains over plain decoding of the same weights, beside transformers' own early exit: about a quarter of an hour.
    """
    from ..bench.efficiency.registry import select
    from ..bench.efficiency.report import Report, facts
    from ..bench.layerskip.checkpoint import OURS, checkpoint_of
    from ..bench.layerskip.registry import parts
    from ..errors import UsageError
    from ..text.locate import Finder
    from ..text.progress import to_stderr
    from .loading import interruptible

    if data is None:
        raise UsageError(f"--data is missing: a folder with {_data_files()}")
    with interruptible():
        found = checkpoint_of(checkpoint or str(OURS), Finder(to_stderr, cache, offline), base)
    trial, lab = _trial(found, data, quick, cache, offline)
    known = parts(trial)
    chosen = select(only or [], known)
    told = {"checkpoint": found.name, "base": found.base, "trained_exits": list(found.exits)}
    report = Report({**facts(lab), **told, "rows": trial.extent.rows, "prompts": trial.extent.prompts})
    carry_out(chosen, known, lab, report, None if as_json else _show)


def _data_files() -> str:
    from ..bench.layerskip.sources import FILES

    return ", ".join(FILES)


def _trial(found: Any, data: Path, quick: bool, cache: Path | None, offline: bool) -> tuple[Any, Any]:
    """What is judged, and what with."""
    from ..bench.efficiency.lab import Effort, Lab
    from ..bench.efficiency.models import RealModels
    from ..bench.layerskip.sources import Sources
    from ..bench.layerskip.trial import Extent, Trial

    models = RealModels(found.name, cache, offline)
    trial = Trial(found, models, Sources(data), Extent.quick() if quick else Extent())
    return trial, Lab(models, Effort.quick() if quick else Effort(), tell, cache=cache)


def _show(report: reports.Report, chosen: Sequence[Part]) -> None:
    page = console()
    page.print(_figures(report, chosen))
    if exits := report.values.get("exits"):
        page.print(_by_exit(exits, report))
        for line in _certainty(report.values["exit_intervals"]):
            page.print(line)
    if decoding := report.values.get("decoding"):
        page.print(_by_head(decoding))
    if dynamic := report.values.get("dynamic"):
        page.print(_by_kind(dynamic))
        page.print(_over_time(dynamic["course"]))


def _figures(report: reports.Report, chosen: Sequence[Part]) -> Table:
    """Those that are one number."""
    facts = report.facts
    title = f"{facts['checkpoint']}, started from {facts['base']}, {facts['cpu']}, {facts['threads']} threads"
    table = _table("figure", f"QUICK: these figures mean nothing. {title}" if facts["quick"] else title)
    for heading in ("value", "95 %"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what it is")
    for figure in (each for part in chosen for each in part.figures):
        if figure.key in report.absent:
            table.add_row(figure.key, "absent", "", report.absent[figure.key])
        elif not isinstance(report.values[figure.key], dict):
            interval = " … ".join(f"{each:.2f}" for each in report.intervals.get(figure.key, []))
            table.add_row(figure.key, f"{report.values[figure.key]:.4g}", interval, figure.meaning)
    return table


def _by_exit(exits: dict[str, dict[str, dict[str, float]]], report: reports.Report) -> Table:
    table = _table("held-out text", "choices of each exit equal to the last layer's, of 100; loss of the last layer")
    numbers = list(next(iter(exits.values()))["after"])
    for heading in ("", *numbers, "loss"):
        table.add_column(heading, justify="right")
    for text, by_time in exits.items():
        for when, agreement in by_time.items():
            loss = report.values[f"last_layer_loss_{when}"][text]
            shares = (f"{100 * agreement[number]:.0f}" for number in numbers)
            table.add_row(text if when == "before" else "", when, *shares, f"{loss:.3f}")
    return table


def _certainty(intervals: dict[str, dict[str, list[float]]]) -> Iterator[str]:
    """Of the trained exits' agreement, by text; 95 %."""
    for text, by_exit in intervals.items():
        for exit_layer, (low, high) in by_exit.items():
            yield f"{text}, exit {exit_layer}: {100 * low:.1f} … {100 * high:.1f} of 100"


def _by_head(decoding: dict[str, Any]) -> Table:
    table = _table("weights", "drafted against plain decoding of the same weights")
    for heading in ("drafter", "text", "plain tokens/s", "tokens/s", "× plain", "M", "α"):
        table.add_column(heading, justify="right")
    for row in _head_rows(decoding):
        table.add_row(*row)
    return table


def _head_rows(decoding: dict[str, Any]) -> Iterator[list[str]]:
    for weights, found in decoding.items():
        if "absent" in found:
            yield [weights, "absent", found["absent"]]
            continue
        for head, told in found["heads"].items():
            drafter = f"exit:layer={found['exit']},depth={found['depth']},width={found['width']},head={head}"
            for text, each in told["by_text"].items():
                speeds = (f"{each[name]:.1f}" for name in ("plain_tokens_per_second", "tokens_per_second"))
                shares = (f"{each[name]:.2f}" for name in ("speedup", "mean_accepted", "acceptance_rate"))
                yield [f"{weights} ({found['weights']})", drafter, text, *speeds, *shares]


def _by_kind(dynamic: dict[str, Any]) -> Table:
    kinds = list(dynamic["by_kind"])
    table = _table("drafter", "× plain decoding and M by kind of text, over one stream")
    for kind in kinds:
        table.add_column(kind, justify="right")
    for name in dynamic["by_kind"][kinds[0]]:
        told = (dynamic["by_kind"][kind][name] for kind in kinds)
        table.add_row(name, *(f"{each['speed']:.2f}  {each['mean_accepted']:.2f}" for each in told))
    ratios = (f"{dynamic['over_best_fixed'][kind]:.2f}" for kind in kinds)
    table.add_row("dynamic / best fixed", *ratios)
    return table


def _over_time(course: list[dict[str, Any]]) -> Table:
    table = _table("tokens", "the dynamic drafter over time")
    for heading in ("text", "exit", "depth", "siblings", "α", "M"):
        table.add_column(heading, justify="right")
    for line in course:
        figures = (line[name] for name in ("depth", "siblings", "acceptance_rate", "mean_accepted"))
        table.add_row(*map(str, (line["tokens"], line["text"], line["exit"])), *(f"{each:.2f}" for each in figures))
    return table


def _table(first: str, title: str) -> Table:
    from rich.table import Table

    return Table(first, title=title, title_justify="left", box=None, pad_edge=False)
