"""skipstone bench swift"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from . import options as o
from .bench_run import carry_out, console, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..bench.efficiency.part import Part
    from ..bench.efficiency.report import Report


def swift(
    model: Annotated[str, typer.Option(metavar="MODEL", help="The real model to measure with.")] = "smollm2-135m",
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="cnn_dm_40, gsm8k_test_200, dolly_151, spec_bench_60, humaneval (.jsonl)."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A part or figure; may be given several times.")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw stream and ablations text by text; SVG.", dir_okay=False)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Just see that it runs; the figures mean nothing.")] = False,
    cache: o.Cache = None,
    offline: o.Offline = False,
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """How well drafts find out what to skip: on models whose best plan is known, and on one where nothing pays.

    The part stream takes --data, and is absent without it. --only ablations changes one thing at a time in the paper's
    preset, over the same tasks with --data; that takes half an hour.
    """
    from ..bench.efficiency.lab import Effort, Lab
    from ..bench.efficiency.models import RealModels
    from ..bench.efficiency.registry import select
    from ..bench.efficiency.report import facts
    from ..bench.swift.differences import SummedReport
    from ..bench.swift.registry import parts, usual

    known = parts(data)
    chosen = select(only, known) if only else usual(known)
    _check(svg, chosen, data)
    lab = Lab(RealModels(model, cache, offline), Effort.quick() if quick else Effort(), tell, cache=cache)
    report = SummedReport(facts(lab))
    try:
        carry_out(chosen, known, lab, report, None if as_json else _show)
    finally:
        if svg is not None:
            _draw(svg, report)


def _check(svg: Path | None, chosen: Sequence[Part], data: Path | None) -> None:
    """A picture that cannot come to be is known before an hour of measuring."""
    if svg is None:
        return
    names = {part.name for part in chosen}
    if "ablations" not in names and not ("stream" in names and data is not None):
        raise UsageError(
            "--svg draws the parts stream, which takes --data, and ablations: add --only stream --data DIR, "
            "or --only ablations"
        )
    if not svg.absolute().parent.is_dir():
        raise UsageError(f"--svg {svg}: there is no folder {svg.absolute().parent}: make it first")


def _draw(svg: Path, report: Report) -> None:
    from ..bench.swift.picture import panels_of, picture
    from ..store.atomic import disk_errors

    panels = panels_of(report.values)
    if not panels:
        tell(f"--svg {svg}: not drawn, as neither stream nor ablations found anything")
        return
    with disk_errors(svg, option="--svg"):
        svg.write_text(picture(panels), encoding="utf-8")


def _show(report: Report, chosen: Sequence[Part]) -> None:
    from ..bench.swift.registry import whole
    from .bench import show
    from .bench_swift_tables import tables

    show(report, [*chosen, whole()])
    for table in tables(report.values):
        console().print(table)
