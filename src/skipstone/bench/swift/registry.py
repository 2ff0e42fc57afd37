"""The parts there are."""

from __future__ import annotations

from pathlib import Path

from ..efficiency.lab import Lab
from ..efficiency.part import Findings, Part
from . import ablations, differences, planted, preset, shift, shipped, unlike_tasks


def parts(data: Path | None = None) -> list[Part]:
    """In the order in which they run; ``data`` has the files of the stream's tasks."""
    grown = [planted.part(), planted.leaky_part(), preset.part(), shift.part()]
    return [*grown, shipped.part(), unlike_tasks.part(data), ablations.part(data)]


def usual(known: list[Part]) -> list[Part]:
    """Those that run unless others are asked for: the ablations are many, and no figure is wanted of them."""
    return [part for part in known if part.name != "ablations"]


def whole() -> Part:
    """What is told below those that were chosen: ``SummedReport`` has it without anything being run."""
    return Part("whole", (differences.WHOLE,), _nothing)


def _nothing(lab: Lab) -> Findings:
    return {}
