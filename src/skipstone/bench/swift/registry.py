"""The parts there are."""

from __future__ import annotations

from ..efficiency.part import Part
from . import planted, shift, shipped


def parts() -> list[Part]:
    """In the order in which they run."""
    return [planted.part(), shift.part(), shipped.part()]
