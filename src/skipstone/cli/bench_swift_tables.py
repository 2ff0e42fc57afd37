"""The stream's and the ablations' findings as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def tables(values: Mapping[str, Any]) -> Iterator[Table]:
    """Of the parts ``stream`` and ``ablations``, as far as they ran."""
    for model, drafters in (values.get("stream") or {}).items():
        yield _stream(model, drafters)
    if ablations := values.get("ablations"):
        yield _ablations(ablations)


def _stream(model: str, drafters: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = {name: [_task(task) for task in tasks.values()] for name, tasks in drafters.items()}
    tasks = list(next(iter(drafters.values())))
    return _table(f"{model}: speed over plain decoding (tokens accepted)", ["drafter", *tasks], rows)


def _task(task: Mapping[str, float]) -> str:
    return f"{task['speed']:.2f} ({task['acceptance']:.2f})"


def _ablations(found: Mapping[str, Mapping[str, Any]]) -> Table:
    headings = ["swift", "speed, first text", "last text", "median", "matchness, first text", "last text", "search"]
    rows = {name: _variant(each) for name, each in found.items()}
    return _table("One thing changed at a time: speed over plain decoding", headings, rows)


def _variant(found: Mapping[str, Any]) -> list[str]:
    speed, matchness = found["speed"], found["matchness"]
    figures = [speed[0], speed[-1], median(speed), matchness[0], matchness[-1]]
    return [*(f"{figure:.2f}" for figure in figures), f"{found['search_share']:.0%}"]


def _table(title: str, headings: list[str], rows: Mapping[str, list[str]]) -> Table:
    from rich.table import Table

    table = Table(headings[0], title=title, title_justify="left", box=None, pad_edge=False)
    for heading in headings[1:]:
        table.add_column(heading, justify="right")
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table
