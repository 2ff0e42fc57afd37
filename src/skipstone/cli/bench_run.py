"""What every benchmark of parts does: run them, and show or print what they found, however that ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from ..bench.efficiency.lab import Lab
    from ..bench.efficiency.part import Part
    from ..bench.efficiency.report import Report

Show = Callable[["Report", "Sequence[Part]"], None]


def tell(line: str) -> None:
    """Progress."""
    print(line, file=sys.stderr, flush=True)


def console() -> Console:
    """As wide as the terminal; wide enough for a row where there is none."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160)


def carry_out(chosen: Sequence[Part], known: Sequence[Part], lab: Lab, report: Report, show: Show | None) -> None:
    """Run the chosen parts, then ``show`` the report, or print it as JSON; after an interrupt, what there is of it.

    Raises UsageError, after that, where not one figure of the chosen parts was measured.
    """
    from ..bench.efficiency.report import run_parts
    from .loading import interruptible

    try:
        with interruptible():
            run_parts(chosen, known, lab, report)
    finally:
        if show is None:
            print(json.dumps(report.to_json()))
        else:
            show(report, chosen)
    _check_measured(chosen, report)


def _check_measured(chosen: Sequence[Part], report: Report) -> None:
    keys = [key for part in chosen for key in part.keys]
    if keys and all(key in report.absent for key in keys):
        raise UsageError(f"nothing was measured: {report.absent[keys[0]]}")
