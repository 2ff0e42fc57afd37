"""skipstone plans …"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o

if TYPE_CHECKING:
    from ..store import KeptPlan, ModelPlans

_Model = Annotated[str, typer.Argument(metavar="MODEL", help="As for generate, or a fingerprint from the list.")]
_Task = Annotated[
    str | None, typer.Option("--task", metavar="NAME", help="Only this task's; '': of no task. [default: all]")
]


def plans_app() -> typer.Typer:
    """The commands below ``plans``."""
    app = typer.Typer(no_args_is_help=True, help=plans.__doc__)
    app.callback()(plans)
    for name, command in (("list", list_), ("show", show), ("export", export), ("import", import_), ("forget", forget)):
        app.command(name)(command)
    return app


def plans() -> None:
    """The plans that the skip drafter found and keeps: which sublayers of a model a draft can do without."""


def list_(cache: o.Cache = None, as_json: o.AsJson = False, debug: o.Debug = False) -> None:
    """List what is kept: a line for each model and task."""
    from .kept import Kept

    found = Kept(cache).all()
    if as_json:
        print(json.dumps([entry for plans in found for entry in _entries(plans)]))
    elif found:
        _table(found)
    else:
        print("no plans are kept: generate with --drafter skip, or run skipstone tune")


def show(
    model: _Model = "smollm2-135m",
    task: _Task = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the plan into this file, too.")] = None,
    cache: o.Cache = None,
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """Draw the plans of a model, layer by layer, and tell what they showed and promise."""
    from .kept import Kept

    plans = _chosen(Kept(cache).of(model), task)
    if png is not None:
        _draw(plans, png)
    if as_json:
        print(json.dumps(list(_entries(plans))))
    else:
        print("\n\n".join(description(plans, name) for name in plans.tasks))


def export(
    model: _Model,
    file: Annotated[str, typer.Argument(metavar="FILE", help="-: standard output.")] = "-",
    task: _Task = None,
    cache: o.Cache = None,
    debug: o.Debug = False,
) -> None:
    """Write the plans of a model to a file, for another machine."""
    from ..store import write_json
    from .kept import Kept

    plans = _chosen(Kept(cache).of(model), task)
    if file == "-":
        print(json.dumps(plans.to_json(), indent=2))
    else:
        write_json(Path(file).expanduser(), plans.to_json())


def import_(
    model: _Model,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What export wrote.")],
    task: _Task = None,
    cache: o.Cache = None,
    debug: o.Debug = False,
) -> None:
    """Take in plans that were found on another machine, in the place of those of the same task."""
    from ..store import change_plans, imported
    from ..text.progress import to_stderr
    from .kept import Kept

    kept = Kept(cache)
    ours = kept.identify(model)
    plans = _chosen(imported(file.expanduser(), ours), task)
    change_plans(kept.folder, ours, lambda before: before.with_plans(plans.tasks), to_stderr)
    print(f"{_names(plans)} of {model}: taken in")


def forget(model: _Model, task: _Task = None, cache: o.Cache = None, debug: o.Debug = False) -> None:
    """Remove the plans of a model, or of one task."""
    from ..store import change_plans
    from ..text.progress import to_stderr
    from .kept import Kept

    kept = Kept(cache)
    plans = _chosen(kept.of(model), task)

    def without(before: ModelPlans) -> ModelPlans:
        for name in plans.tasks.keys() & before.tasks.keys():
            before = before.without(name)
        return before

    change_plans(kept.folder, plans, without, to_stderr)
    print(f"{_names(plans)} of {plans.model}: forgotten")


def _chosen(plans: ModelPlans, task: str | None) -> ModelPlans:
    return plans if task is None else plans.only(task)


def _names(plans: ModelPlans) -> str:
    from ..store.plans import shown

    return f"the plan of task {', '.join(map(shown, plans.tasks))}"


def _entries(plans: ModelPlans) -> Iterator[dict[str, Any]]:
    about = {"model": plans.model, "fingerprint": plans.fingerprint, "layers": plans.layers}
    return ({**about, "task": task, **kept.to_json()} for task, kept in plans.tasks.items())


def _table(found: list[ModelPlans]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ..store.plans import shown

    table = Table("model", "fingerprint", "task", box=None, pad_edge=False)
    for heading in ("attn out", "MLP out", "layers", "matchness", "found"):
        table.add_column(heading, justify="right", no_wrap=True)
    for plans in found:
        for task, kept in plans.tasks.items():
            out = (len(kept.plan.skip_attn), len(kept.plan.skip_mlp), plans.layers)
            names = (plans.model, plans.fingerprint[:12], shown(task))
            table.add_row(*map(Text, names), *map(str, out), f"{kept.matchness:.2f}", kept.date[:10])
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _draw(plans: ModelPlans, png: Path) -> None:
    from ..errors import UsageError
    from ..store.atomic import disk_errors, new_file
    from .layer_map import picture

    if len(plans.tasks) != 1:
        raise UsageError(f"--png draws one plan, but {len(plans.tasks)} are kept: choose one with --task")
    with disk_errors(png, option="--png"), new_file(png.expanduser()) as part:
        part.write_bytes(picture(next(iter(plans.tasks.values())).plan))


def description(plans: ModelPlans, task: str) -> str:
    """One plan for a reader, in the width of the terminal."""
    from shutil import get_terminal_size

    from ..store.plans import shown
    from .layer_map import drawn

    kept = plans.task(task)
    heading = f"{plans.model} ({plans.fingerprint[:12]}), {plans.layers} layers, task {shown(task)}"
    drawing = drawn(kept.plan, get_terminal_size().columns, sys.stdout.encoding)
    return "\n".join([heading, "", drawing, "", *_figures(kept, plans.layers)])


def _figures(kept: KeptPlan, layers: int) -> Iterator[str]:
    plan, left = kept.plan, "nothing was left to try" if kept.settled else "the search goes on"
    yield f"leaves out {len(plan.skip_attn)} of {layers} attentions and {len(plan.skip_mlp)} of {layers} MLPs"
    yield f"matchness {kept.matchness:.2f}, acceptance {kept.acceptance:.2f}, seen on {kept.tokens} tokens; {left}"
    for machine, promise in kept.promises.items():
        yield f"{promise.speed:.2f} × plain decoding, {promise.depth} tokens a draft, on {machine}"
    yield f"found {kept.date} by skipstone {kept.version}"
