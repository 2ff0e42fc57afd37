"""skipstone plans …"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o
from .loading import after_torch

if TYPE_CHECKING:
    from ..store import KeptExit, KeptPlan, ModelPlans

_Model = Annotated[str, typer.Argument(metavar="MODEL", help="As for generate, or a fingerprint from the list.")]
_Task = Annotated[
    str | None, typer.Option("--task", metavar="NAME", help="Only this task's; '': of no task. [default: all]")
]


def plans_app() -> typer.Typer:
    """The commands below ``plans``."""
    app = typer.Typer(no_args_is_help=True, help=plans.__doc__)
    app.callback()(plans)
    for name, command in (("list", list_), ("show", show), ("export", export), ("import", import_), ("forget", forget)):
        app.command(name)(after_torch(command))
    return app


def plans() -> None:
    """What is kept for drafters: which sublayers a draft can do without (skip), at which layer it ends best (exit)."""


def list_(cache: o.Cache = None, as_json: o.AsJson = False, debug: o.Debug = False) -> None:
    """List what is kept: a line for each model, task and kind of draft."""
    from .kept import Kept
    from .kept_text import table

    found = Kept(cache).all()
    if as_json:
        print(json.dumps([entry for plans in found for entry in _entries(plans)]))
    elif found:
        table(found)
    else:
        print("no plans are kept: generate with --drafter skip, or run skipstone tune or skipstone sweep")


def show(
    model: _Model = "smollm2-135m",
    task: _Task = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the skip plan into this file, too.")] = None,
    cache: o.Cache = None,
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """Tell what is kept of a model and what it showed; skip plans are drawn layer by layer."""
    from .kept import Kept
    from .kept_text import descriptions

    plans = _chosen(Kept(cache).of(model), task)
    if png is not None:
        _draw(plans, png)
    if as_json:
        print(json.dumps(list(_entries(plans))))
    else:
        print("\n\n".join(descriptions(plans)))


def export(
    model: _Model,
    file: Annotated[str, typer.Argument(metavar="FILE", help="-: standard output.")] = "-",
    task: _Task = None,
    cache: o.Cache = None,
    debug: o.Debug = False,
) -> None:
    """Write the plans of a model to a file, for another machine."""
    from ..store import write_json
    from ..text.progress import to_stderr
    from .kept import Kept

    plans = _chosen(Kept(cache).of(model), task)
    if file == "-":
        print(json.dumps(plans.to_json(), indent=2))
    else:
        write_json(Path(file).expanduser(), plans.to_json(), option="FILE")
        to_stderr(f"{_names(plans)} of {plans.model}: written to {file}")


def import_(
    model: _Model,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What export wrote.")],
    task: _Task = None,
    cache: o.Cache = None,
    debug: o.Debug = False,
) -> None:
    """Take in plans that were found on another machine, in the place of those of the same task."""
    from ..store import PlanFile, change_plans
    from ..text.progress import to_stderr
    from .kept import Kept

    kept, given = Kept(cache), PlanFile.read(file.expanduser())
    ours = kept.identify(model, given.plans)
    plans = given.plans_for(ours, task)
    change_plans(kept.folder, ours, lambda before: before.with_plans(plans), to_stderr)
    print(f"{_names(plans)} of {ours.model or model}: taken in")


def forget(model: _Model, task: _Task = None, cache: o.Cache = None, debug: o.Debug = False) -> None:
    """Remove what is kept of a model, or of one task."""
    from ..store import change_plans
    from ..text.progress import to_stderr
    from .kept import Kept

    kept = Kept(cache)
    plans = _chosen(kept.of(model), task)

    def without(before: ModelPlans) -> ModelPlans:
        for name in set(plans.labels) & set(before.labels):
            before = before.without(name)
        return before

    change_plans(kept.folder, plans, without, to_stderr)
    print(f"{_names(plans)} of {plans.model}: forgotten")


def _chosen(plans: ModelPlans, task: str | None) -> ModelPlans:
    return plans if task is None else plans.only(task)


def _names(plans: ModelPlans) -> str:
    from ..store.plans import shown

    return f"what is kept for task {', '.join(map(shown, plans.labels))}"


def _entries(plans: ModelPlans) -> Iterator[dict[str, Any]]:
    about = {"model": plans.model, "fingerprint": plans.fingerprint, "layers": plans.layers}
    kinds: dict[str, Mapping[str, KeptPlan | KeptExit]] = {"skip": plans.tasks, "exit": plans.exits}
    for kind, kept in kinds.items():
        yield from ({**about, "task": task, "kind": kind, **each.to_json()} for task, each in kept.items())


def _draw(plans: ModelPlans, png: Path) -> None:
    from ..errors import UsageError
    from ..store.atomic import disk_errors, new_file
    from .layer_map import picture

    if len(plans.tasks) != 1:
        raise UsageError(f"--png draws one plan, but {_several(list(plans.tasks))}")
    with disk_errors(png, option="--png"), new_file(png.expanduser()) as part:
        part.write_bytes(picture(next(iter(plans.tasks.values())).plan))


def _several(tasks: Sequence[str]) -> str:
    """What keeps one plan from being meant."""
    if not tasks:
        return "none is kept"
    unnamed = ' (--task "" is the one listed as "(none)")' if "" in tasks else ""
    return f"{len(tasks)} are kept: choose one with --task{unnamed}"
