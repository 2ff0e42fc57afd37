"""What is known of each plan tried: pooled over windows, old text counting less."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

from ..plan import LayerPlan

_MEMORY = 256.0  # positions a share rests on at most
_PRIOR_HITS, _PRIOR = 0.5, 1.0  # what it starts from, and how many positions that is worth


@dataclass
class Tally:
    """hits/of, both real numbers, as old sights fade."""

    hits: float = 0.0
    of: float = 0.0

    def add(self, hits: float, of: float, memory: float = _MEMORY) -> None:
        kept = min(1.0, max(memory - of, 0.0) / self.of) if self.of else 1.0
        self.hits = self.hits * kept + hits
        self.of = self.of * kept + of

    @classmethod
    def of_share(cls, share: float, of: float) -> Tally:
        """One that says ``share`` and rests on ``of`` sights."""
        return cls(share * (of + _PRIOR) - _PRIOR_HITS, of)

    @property
    def share(self) -> float:
        """Between 0 and 1, neither reached: few sights prove little."""
        return (self.hits + _PRIOR_HITS) / (self.of + _PRIOR)

    @property
    def sure(self) -> float:
        """A share that chance alone hardly lifts it above: two standard deviations less."""
        share = self.share
        return max(share - 2 * sqrt(share * (1 - share) / (self.of + _PRIOR)), 0.0)


@dataclass
class Book:
    tallies: dict[LayerPlan, Tally] = field(default_factory=dict)

    def add(self, plan: LayerPlan, hits: float, of: float) -> Tally:
        tally = self.tallies.setdefault(plan, Tally())
        tally.add(hits, of)
        return tally

    def share(self, plan: LayerPlan, unseen: float) -> float:
        """What is known of a plan, or ``unseen``."""
        return self.tallies[plan].share if plan in self.tallies else unseen

    def clear(self) -> None:
        self.tallies.clear()
