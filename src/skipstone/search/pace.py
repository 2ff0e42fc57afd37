"""How much longer cycles that draft take than their steps should: picking tokens and much else is in no price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_CYCLES = 64  # that it rests on
_OUTLIER = 2.0  # times its price, that one cycle counts for at most
_FADES = 1024  # plain steps in which most of it is forgotten


@dataclass(frozen=True, slots=True)
class Expected:
    """What a cycle should take one of its rows: ``share`` of the cycle, which is ``ms``."""

    ms: float
    share: float

    @classmethod
    def by_row(cls, rows: Sequence[int], ms: float) -> dict[int, Expected]:
        """For each of ``rows``, of a cycle that should take ``ms``."""
        return dict.fromkeys(rows, cls(ms / len(rows), 1 / len(rows)))


@dataclass
class Pace:
    """``slower`` is that many times; 1 at least, as nobody is to draft for the luck of a few cycles."""

    slower: float = 1.0

    def compare(self, taken_ms: float, expected: Expected) -> None:
        """One row's part of a cycle: its rows tell of it one by one."""
        ratio = min(taken_ms / expected.ms, _OUTLIER)
        self.slower = max(self.slower + (ratio - self.slower) * expected.share / _CYCLES, 1.0)

    def rest(self) -> None:
        """A step without a draft: what was found fades, as nothing else would ever show that it is so no more."""
        self.slower -= (self.slower - 1.0) / _FADES
