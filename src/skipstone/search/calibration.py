"""How often drafted tokens of a confidence prove right: drafts are more, or less, sure than they should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .book import Tally

_BINS = 10
_MEMORY = 128.0  # tokens that a bin rests on
_PRIOR = 8.0  # tokens of a confidence that must have been seen before it counts for more than any other
_FADES = 1 - 1 / 256  # what a token's confidence counts for at the next one


@dataclass
class Calibration:
    """``often`` counts tokens by bins of confidence, older ones counting less; ``bins`` says how many were right."""

    bins: list[Tally] = field(default_factory=lambda: [Tally() for _ in range(_BINS)])
    often: list[float] = field(default_factory=lambda: [0.0] * _BINS)

    def chance(self, confidence: float, usual: float) -> float:
        """Of being accepted; ``usual`` is what is believed before any was seen."""
        tally = self._bin(confidence)
        return (tally.hits + _PRIOR * usual) / (tally.of + _PRIOR)

    def add(self, confidence: float, right: bool) -> None:
        self._bin(confidence).add(float(right), 1, _MEMORY)
        place = _place(confidence)
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
        """(share of all tokens, their confidence) of each bin that was seen, by the middle of the bin."""
        total = self.count
        return [(count / total, (place + 0.5) / _BINS) for place, count in enumerate(self.often) if count]

    def _bin(self, confidence: float) -> Tally:
        return self.bins[_place(confidence)]


def _place(confidence: float) -> int:
    return min(int(confidence * _BINS), _BINS - 1)
