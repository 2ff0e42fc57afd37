"""The cycles that a setting would take along a text, by what its exit would have drafted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .agreement import Places


@dataclass
class Walk:
    """``cycles`` are counted by the tokens they draft: fewer towards the end of a budget.

    ``tried`` and ``accepted`` count, by i, the cycles whose i-th drafted token came after right ones only, and of these
    those where it was right as well.
    """

    tokens: int = 0
    cycles: Counter[int] = field(default_factory=Counter)
    tried: Counter[int] = field(default_factory=Counter)
    accepted: Counter[int] = field(default_factory=Counter)

    @property
    def tokens_per_cycle(self) -> float:
        """M, the bonus token included."""
        return self.tokens / self.cycles.total() if self.tokens else 0.0

    @property
    def acceptance_by_depth(self) -> list[float]:
        """At depth i, of the drafts that were right before it."""
        return [self.accepted[depth] / self.tried[depth] for depth in sorted(self.tried)]

    def go(self, places: Places, budget: int, depth: int, width: int = 1) -> None:
        """From the first output token to the last: draft, take what is right and the bonus token, draft again.

        Expected tokens of a cycle are 1 + Σ_i P(first i right). They are counted where cycles begin, not at every token
        of the text: behind a wrong guess a draft fares otherwise than elsewhere.
        """
        at = 0
        while at < len(places):
            drafted = min(depth, budget - at - 1)
            right = _agreed(places, at, drafted)
            self.cycles[drafted] += 1
            self.tried.update(range(1, min(right + 1, drafted, len(places) - at) + 1))
            self.accepted.update(range(1, right + 1))
            wrong = at + right
            rescued = right < drafted and wrong < len(places) and places[wrong] < width
            emitted = min(right + rescued + 1, len(places) - at)
            self.tokens += emitted
            at += emitted


def _agreed(places: Places, start: int, most: int) -> int:
    """How many of at most ``most`` tokens from ``start`` on were an exit's first choice, one after the other."""
    end = min(start + most, len(places))
    return next((at - start for at in range(start, end) if places[at] != 0), end - start)
