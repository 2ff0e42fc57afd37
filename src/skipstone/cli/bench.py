"""skipstone bench …"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o
from .bench_layerskip import layerskip
from .bench_miniature import miniature
from .bench_run import carry_out, console, tell
from .bench_swift import swift
from .loading import after_torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from ..bench.efficiency import report as reports
    from ..bench.efficiency.part import Figure, Part


def bench_app() -> typer.Typer:
    """The commands below ``bench``."""
    app = typer.Typer(no_args_is_help=True, help="Measure this machine, this model, and what others do with them.")
    app.callback()(bench)
    for command in (efficiency, layerskip, miniature, swift):
        app.command()(after_torch(command))
    return app


def bench() -> None:
    """Measure this machine, this model, and what others do with them."""


def efficiency(
    model: Annotated[str, typer.Option(metavar="MODEL", help="The real model to measure with.")] = "smollm2-135m",
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A part, or a figure and its part; a wrong name shows all. May be given several times."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Just see that it runs; the figures mean nothing.")] = False,
    rivals: Annotated[
        bool, typer.Option("--rivals", help="Fetch other libraries into the cache and compare with them.")
    ] = False,
    cache: o.Cache = None,
    offline: o.Offline = False,
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """How near the engine is to what the machine allows: about 20 minutes, so leave the machine alone meanwhile.

    K tokens are drafted at c plain steps each and verified at v; M come out of a cycle; speed-up M / (K·c + v). A model
    share is the measured speed-up over that. A bound is what reading the weights allows.
    """
    from ..bench.efficiency.lab import Effort, Lab
    from ..bench.efficiency.models import RealModels
    from ..bench.efficiency.registry import parts, select
    from ..bench.efficiency.report import Report, facts

    known = parts()
    chosen = select(only or [], known)
    models = RealModels(model, cache, offline)
    effort = Effort.quick() if quick else Effort()
    lab = Lab(models, effort, tell, rivals=rivals, cache=cache)
    carry_out(chosen, known, lab, Report(facts(lab)), None if as_json else show)


def show(report: reports.Report, chosen: Sequence[Part]) -> None:
    page = console()
    page.print(_table(report, chosen))
    if nodes := report.values.get("verify_ms"):
        page.print(_by_nodes(nodes, report.values["verify_bound_ms"]))
    if cycles := _cycles(report):
        page.print(_by_cycle(cycles))


def _table(report: reports.Report, chosen: Sequence[Part]) -> Table:
    from rich.table import Table

    facts = report.facts
    machine = f"{facts['cpu']}, {facts['threads']} threads, torch {facts['torch']}"
    title = f"{facts['model']}, {machine}, batch 1, greedy unless said"
    if facts["quick"]:
        title = f"QUICK: these figures mean nothing. {title}"
    table = Table("figure", title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("value", "95 %", "wanted"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what it is")
    for part in chosen:
        for figure in part.figures:
            table.add_row(*_row(report, figure))
    return table


def _row(report: reports.Report, figure: Figure) -> list[str]:
    key = figure.key
    if key in report.absent:
        return [key, "absent", "", figure.wanted, report.absent[key]]
    low_high = report.intervals.get(key, [])
    return [
        key,
        _number(report.values[key]),
        " … ".join(map(_number, low_high)),
        _wanted(report, figure),
        figure.meaning,
    ]


def _wanted(report: reports.Report, figure: Figure) -> str:
    """A limit that was measured itself is shown as a number."""
    sign, _, limit = figure.wanted.partition(" ")
    return f"{sign} {_number(report.values[limit])}" if limit in report.values else figure.wanted


def _number(value: Any) -> str:
    if isinstance(value, dict):
        return "(--json)"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _by_nodes(milliseconds: dict[str, dict[str, float]], bounds: dict[str, float]) -> Table:
    """Milliseconds of a run by its nodes; the bound is what reading the weights takes."""
    from rich.table import Table

    counts = list(next(iter(milliseconds.values())))
    table = Table("weights", title="ms of a run by nodes", title_justify="left", box=None, pad_edge=False)
    for heading in (*counts, "bound"):
        table.add_column(heading, justify="right")
    for kind, by_nodes in milliseconds.items():
        table.add_row(kind, *(f"{ms:.1f}" for ms in by_nodes.values()), f"{bounds[kind]:.1f}")
    return table


def _cycles(report: reports.Report) -> dict[str, dict[str, float]]:
    """What is known of drafted cycles, by form and weights; those that could not be had are left out."""
    exits: dict[str, Any] = report.values.get("planted_exit", {})
    skips: dict[str, Any] = report.values.get("planted_skip", {})
    found = {f"exit, {kind}": cycle for kind, cycle in exits.items()}
    found |= {f"skip, {kind}": heads["full"] for kind, heads in skips.items()}
    found |= {f"skip, {kind}, few tokens": heads["head"] for kind, heads in skips.items() if "c" in heads["head"]}
    return found


def _by_cycle(cycles: dict[str, dict[str, float]]) -> Table:
    """Times in plain steps; the bound is the speed-up that the bytes of the weights allow."""
    from rich.table import Table

    shown = ("c", "v", "late", "mean_accepted", "speedup", "model_share", "bound")
    table = Table("planted", title="drafted cycles, in plain steps", title_justify="left", box=None, pad_edge=False)
    for heading in shown:
        table.add_column("M" if heading == "mean_accepted" else heading.replace("_", " "), justify="right")
    for name, cycle in cycles.items():
        table.add_row(name, *(f"{cycle[key]:.2f}" for key in shown))
    return table
