"""Texts that are not those of plain decoding: counted by each part, summed over those that ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..efficiency.part import Absent, Figure
from ..efficiency.report import Report
from .stream import Told

_PART = "differences_"
WHOLE = Figure("differences", "the same over all parts that ran", "≤ 0")


def figure(part: str) -> Figure:
    return Figure(key(part), "texts that are not those of plain decoding", "≤ 0")


def key(part: str) -> str:
    """Of the figure of one part."""
    return _PART + part


def differing(plain: Iterable[Told], drafted: Iterable[Told]) -> int:
    """Of texts of the same prompts in the same order."""
    return sum(one.tokens != other.tokens for one, other in zip(plain, drafted, strict=True))


@dataclass
class SummedReport(Report):
    """Has ``differences`` whatever parts run: the sum over those that counted theirs so far, absent where none did."""

    def __post_init__(self) -> None:
        self.put(WHOLE.key, Absent("no part that compares texts has ended"))

    def put(self, key: str, value: Any) -> None:
        super().put(key, value)
        counts = [count for known, count in self.values.items() if known.startswith(_PART) and count is not None]
        if counts:
            self.values[WHOLE.key] = sum(counts)
            self.absent.pop(WHOLE.key, None)
