"""How often drafted tokens of a confidence prove right: drafts are more, or less, sure than they should be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .book import Tally

_BINS = 10
_MEMORY = 128.0  # tokens that a bin rests on
_PRIOR = 8.0  # tokens of a confidence that must have been seen before it counts for more than any other
_FADES = 1 - 1 / 256  # what a token's confidence counts for at the next one


def by_tenths(confidence: float) -> int:
    return min(max(int(confidence * _BINS), 0), _BINS - 1)


def by_halves(confidence: float) -> int:
    """The upper half is bin 0, the upper half of the rest bin 1, and so on."""
    return min(max(-math.frexp(confidence)[1], 0), _BINS - 1) if confidence > 0 else _BINS - 1


@dataclass
class Calibration:
    """``often`` counts tokens by bins of confidence, older ones counting less; ``bins`` says how many were right.

    ``place`` tells the bin of a confidence: by tenths, or by halves where most are small.
    """

    place: Callable[[float], int] = by_tenths
    bins: list[Tally] = field(default_factory=lambda: [Tally() for _ in range(_BINS)])
    often: list[float] = field(default_factory=lambda: [0.0] * _BINS)

    def chance(self, confidence: float, usual: float) -> float:
        """Of being accepted; ``usual`` is what is believed before any was seen."""
        tally = self._bin(confidence)
        return (tally.hits + _PRIOR * usual) / (tally.of + _PRIOR)

    def add(self, confidence: float, right: bool) -> None:
        self._bin(confidence).add(float(right), 1, _MEMORY)
        place = self.place(confidence)
        self.often = [count * _FADES for count in self.often]
        self.often[place] += 1

    def observe(self, confidences: Sequence[float], accepted: int) -> None:
        """Of a draft's tokens, of which the first ``accepted`` were; behind the first wrong one nothing is known."""
        for depth, confidence in enumerate(confidences[: accepted + 1]):
            self.add(confidence, depth < accepted)

    @property
    def count(self) -> float:
        """Tokens seen, older ones counting less."""
        return sum(self.often)

    def groups(self) -> list[tuple[float, float]]:
        """(share of all tokens, their confidence) of each tenth that was seen, by its middle."""
        often = self.often  # another thread may put a new list in its place
        total = sum(often)
        return [(count / total, (place + 0.5) / _BINS) for place, count in enumerate(often) if count]

    def _bin(self, confidence: float) -> Tally:
        return self.bins[self.place(confidence)]
