"""The plan that is drafted with, and how its drafts do."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..plan import LayerPlan
from .book import Tally
from .drift import Drift
from .searcher import Trial

_RECENT = 32.0  # drafted tokens that the acceptance of now rests on
_AT_FIRST = 16.0  # of them, those that the trials stand for
_DEPTH_PRIOR = 8.0  # how many of them one depth needs to be believed
_PROVED = 8  # drafted tokens that were judged, before a plan is given up for what became of them


@dataclass
class InUse:
    """``share`` is the acceptance that ``trial`` and those before it promised; ``tokens`` had been emitted by then."""

    trial: Trial
    share: float
    tokens: int
    recent: Tally = field(default_factory=Tally)
    depths: dict[int, Tally] = field(default_factory=dict)
    judged: int = 0
    drift: Drift = field(default_factory=Drift)

    @classmethod
    def taken_up(cls, trial: Trial, share: float, tokens: int) -> InUse:
        drift = Drift.from_share(share, _AT_FIRST)
        return cls(trial, share, tokens, Tally.of_share(share, _AT_FIRST), drift=drift)

    @property
    def plan(self) -> LayerPlan:
        return self.trial.plan

    @property
    def proved(self) -> bool:
        """Whether its own drafts say more of it than the trials did."""
        return self.judged >= _PROVED

    def acceptance(self, depth: int) -> float:
        """Of late at this depth, given that all before were accepted."""
        tally = self.depths.get(depth)
        if tally is None:
            return self.recent.share
        return (tally.hits + _DEPTH_PRIOR * self.recent.share) / (tally.of + _DEPTH_PRIOR)

    def promised(self, depth: int) -> float:
        """The same at any depth, by the trials."""
        return self.share

    def observe(self, accepted: int, judged: int) -> None:
        """``accepted`` drafted tokens, of ``judged``: the first one that was wrong is the last judged."""
        self.judged += judged
        self.drift.observe(accepted, judged)
        self.recent.add(accepted, judged, _RECENT)
        for depth in range(1, judged + 1):
            self.depths.setdefault(depth, Tally()).add(float(depth <= accepted), 1, _RECENT)
