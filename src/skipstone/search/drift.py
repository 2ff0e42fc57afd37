"""Whether drafts have come to be accepted so seldom that drafting does not pay: found sooner than by their average."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .book import Tally

_USUAL = 256.0  # judged tokens that what is usual rests on
_SURE = 12.0  # e to this: how much likelier it must be that things have changed
_APART = 0.1  # shares nearer than that are told from each other by their averages
_MOST = 0.97  # nobody is right always: one surprise must not be proof


@dataclass
class Drift:
    """Page's cumulative sum of log likelihood ratios, of the share ``gone`` against the usual one.

    What is usual does not follow tokens under suspicion: they count once it has passed, be it that they are fewer than
    was usual and still enough.
    """

    usual: Tally = field(default_factory=Tally)
    gone: float = 0.0  # the share at which drafting pays no more; 0: not known
    total: float = 0.0
    _right: int = 0  # under suspicion
    _judged: int = 0

    @classmethod
    def from_share(cls, share: float, weight: float) -> Drift:
        return cls(Tally.of_share(share, weight))

    @property
    def found(self) -> bool:
        return self.total > _SURE and self._right < self.gone * self._judged

    def observe(self, right: int, judged: int) -> None:
        usual = min(self.usual.sure, _MOST)
        if 0 < self.gone < usual - _APART:
            miss = math.log((1 - self.gone) / (1 - usual))
            hit = math.log(self.gone / usual)
            for place in range(judged):
                self.total = max(self.total + (hit if place < right else miss), 0.0)
        self._right, self._judged = self._right + right, self._judged + judged
        if self.total == 0 or (self.total > _SURE and not self.found):
            self.usual.add(self._right, self._judged, _USUAL)
            self._right = self._judged = 0
            self.total = 0.0
