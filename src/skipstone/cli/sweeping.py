"""What ``skipstone sweep`` does once its model is there: a bar while it runs, tables and files at the end."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from ..bench.sweep import sweep as sweeps
from ..bench.sweep.measurement import Measured
from ..bench.sweep.prediction import Prediction
from ..bench.sweep.result import Swept
from ..bench.sweep.setting import Asked
from ..bench.sweep.sweep import Extent, Sweep
from ..errors import StoreError, UsageError
from ..store import ModelPlans, PlanShelf
from ..store.atomic import disk_errors, new_file
from ..text.language_model import LanguageModel
from ..text.progress import to_stderr
from ..text.prompt import Prompt
from .bench_run import console
from .heat_map import coloured, picture
from .kept_text import exit_description


@dataclass(frozen=True)
class Files:
    """Where the sweep is told, beside the terminal."""

    png: Path | None = None
    csv: Path | None = None
    as_json: bool = False

    def check(self) -> None:
        """Before minutes of sweeping, not after. Raises UsageError for what cannot be written."""
        for option, file in (("--png", self.png), ("--csv", self.csv)):
            path = None if file is None else file.expanduser()
            if path is None:
                continue
            if (path.exists() and not path.is_file()) or not path.absolute().parent.is_dir():
                raise UsageError(f"{option} {file}: not a file in a folder that exists; choose another")
        if self.png is not None and self.png == self.csv:
            raise UsageError(f"--png {self.png} and --csv are the same file: choose another for one of them")


def sweep_now(
    model: LanguageModel, prompts: Sequence[Prompt], what: tuple[Asked, Extent], task: str | None, files: Files
) -> None:
    """``task`` None: nothing is kept. Raises StoreError where something cannot be kept or written, once all is told."""
    files.check()
    with _bar() as progress:
        swept = Sweep(model, *what, progress=progress).run(prompts)
    kept, failure = _kept(swept, model, task)
    _report(swept, kept, task, files)
    _write(swept, files)
    if failure is not None:
        raise failure


def _kept(swept: Swept, model: LanguageModel, task: str | None) -> tuple[ModelPlans | None, StoreError | None]:
    """What is kept now, or why nothing can be."""
    try:
        return None if task is None else _keep(model, swept, task), None
    except StoreError as error:
        return None, error


def _report(swept: Swept, kept: ModelPlans | None, task: str | None, files: Files) -> None:
    """Show everything."""
    if files.as_json:
        entry = None if kept is None or task is None else {"task": task, **kept.exit(task).to_json()}
        print(json.dumps({**swept.to_json(), "kept": entry}))
        return
    _show(swept)
    if kept is not None and task is not None:
        print(f"\n{exit_description(kept, task)}\nto draft so: --drafter {quote(f'exit:task={task}')}")
    elif task is not None:
        print(f"\nthis sweep keeps no preset for task {task}")


@contextmanager
def _bar() -> Iterator[sweeps.Progress]:
    """A bar in a terminal, a line at the end of each part elsewhere."""
    bar = Progress(
        BarColumn(),
        TextColumn("{task.completed}/{task.total} {task.description}"),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        tasks: dict[str, Any] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done)
            if bar.disable and done == total:
                to_stderr(f"{done}/{total} {what}")

        yield progress


def _keep(model: LanguageModel, swept: Swept, task: str) -> ModelPlans | None:
    preset, shelf = swept.preset, model.plans
    if preset is None or not isinstance(shelf, PlanShelf):
        return None
    return shelf.keep_exit(task, preset)


def _write(swept: Swept, files: Files) -> None:
    marked = _marked(swept)
    if files.png is not None:
        drawing = picture(swept.cells, swept.grid.exits, swept.grid.depths, marked)
        with disk_errors(files.png, option="--png"), new_file(files.png.expanduser()) as part:
            part.write_bytes(drawing)
    if files.csv is not None:
        with disk_errors(files.csv, option="--csv"), new_file(files.csv.expanduser()) as part:
            part.write_text(_as_csv(swept.rows()), encoding="utf-8")


def _as_csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _marked(swept: Swept) -> tuple[int, int] | None:
    return None if swept.best is None else (swept.best.setting.exit, swept.best.setting.depth)


def _show(swept: Swept) -> None:
    out = console()
    out.print(_exits(swept.by_exit))
    out.print(coloured(swept.cells, swept.grid.exits, swept.grid.depths, _marked(swept)))
    if swept.measured:
        out.print(_settings(swept))
    print(swept.verdict)


def _exits(fastest: Sequence[Prediction]) -> Table:
    table = Table("exit", box=None)
    for heading in ("agreement", "fastest", "tokens a cycle", "predicted"):
        table.add_column(heading, justify="right")
    for each in fastest:
        figures = (f"{each.agreement:.2f}", each.setting.told, f"{each.tokens_per_cycle:.2f}", f"{each.speed:.2f} ×")
        table.add_row(str(each.setting.exit), *figures)
    return table


def _settings(swept: Swept) -> Table:
    table = Table("measured", box=None)
    for heading in ("predicted", "× plain decoding", "tokens a cycle", "texts that differ"):
        table.add_column(heading, justify="right")
    for each in sorted(swept.measured, key=lambda each: each.speed.value, reverse=True):
        table.add_row(each.setting.told, f"{swept.prediction(each.setting).speed:.2f}", *_figures(each))
    return table


def _figures(each: Measured) -> tuple[str, str, str]:
    low, high = each.speed.interval
    ties = f" (and {each.near_ties} near-ties)" if each.near_ties else ""
    speed = f"{each.speed.value:.2f} ({low:.2f} to {high:.2f})"
    return speed, f"{each.tokens_per_cycle:.2f}", f"{each.differences}{ties}"
