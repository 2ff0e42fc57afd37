"""skipstone bench swift"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options as o
from .bench_run import carry_out, tell


def swift(
    model: Annotated[str, typer.Option(metavar="MODEL", help="The real model to measure with.")] = "smollm2-135m",
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="cnn_dm_40, gsm8k_test_200, dolly_151, spec_bench_60, humaneval (.jsonl)."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A part or figure; may be given several times.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Just see that it runs; the figures mean nothing.")] = False,
    cache: o.Cache = None,
    offline: o.Offline = False,
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """How well drafts find out what to skip: on models whose best plan is known, and on one where nothing pays.

    The part stream takes --data, and is absent without it. --only ablations changes one thing at a time in the paper's
    preset; that takes long.
    """
    from ..bench.efficiency.lab import Effort, Lab
    from ..bench.efficiency.models import RealModels
    from ..bench.efficiency.registry import select
    from ..bench.efficiency.report import Report, facts
    from ..bench.swift.registry import parts, usual
    from .bench import show

    known = parts(data)
    chosen = select(only, known) if only else usual(known)
    lab = Lab(RealModels(model, cache, offline), Effort.quick() if quick else Effort(), tell, cache=cache)
    carry_out(chosen, known, lab, Report(facts(lab)), None if as_json else show)
