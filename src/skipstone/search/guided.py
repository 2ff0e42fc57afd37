"""The default searcher: how many of the least missed sublayers can go, then one change after another, each measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..plan import LayerPlan
from .searcher import Signals, Trial
from .sublayer import Sublayer, plan_without, skipped_by

_STARTS = (0.5, 0.25, 0.125)  # of the ranked sublayers: the first looks
_CLOSE = 0.02  # of them: looking closer than this is left to single changes
_LOOKS = 14
_PATIENCE = 3  # changes in a row that bring nothing


@dataclass
class GuidedSearcher:
    """First the ranking is taken at its word: the k least missed sublayers go, and k is found by halving intervals.

    Rankings by single sublayers do not add up, so then the best plan is changed: more sublayers out (ranked anew, with
    the plan as it is), or the most missed ones back in, by ever smaller steps, as long as that helps.
    """

    num_layers: int
    best: Trial | None = None
    _ranking: Sequence[Sublayer] = ()
    _looks: dict[int, float] = field(default_factory=dict)  # speed by how many went
    _asked: int | None = None  # how many, while that is what is looked for
    _changes: Changes | None = None

    def ask(self, signals: Signals) -> LayerPlan | None:
        if not self._ranking:
            self._ranking = signals.ranked(LayerPlan.full(self.num_layers))
        if self._changes is None:
            self._asked = _next_look(self._looks, len(self._ranking))
            if self._asked is not None:
                return plan_without(self.num_layers, self._ranking[: self._asked])
            self._changes = Changes(self.num_layers, max(1, len(self._ranking) // 16))
        assert self.best is not None
        return self._changes.ask(self.best.plan, signals)

    def tell(self, trial: Trial) -> None:
        better = self.best is None or trial.speed > self.best.speed
        if self._changes is None:
            assert self._asked is not None
            self._looks[self._asked] = trial.speed
        else:
            self._changes.tell(better)
        if better:
            self.best = trial


def _next_look(looks: dict[int, float], most: int) -> int | None:
    """How many to leave out next: the middle of the wider gap beside the best so far; None once gaps are small."""
    for share in _STARTS:
        look = max(1, round(share * most))
        if look not in looks:
            return look
    if len(looks) >= _LOOKS:
        return None
    best = max(looks, key=lambda look: looks[look])
    below = max((look for look in looks if look < best), default=0)
    above = min((look for look in looks if look > best), default=most + 1)
    gap, middle = max((best - below, (best + below) // 2), (above - best, (best + above) // 2))
    return middle if gap > max(1, round(_CLOSE * most)) and 0 < middle <= most else None


@dataclass
class Changes:
    """Moves around the best plan: out, then back in, ``size`` sublayers at a time; nothing gained: half as many."""

    num_layers: int
    size: int
    out: bool = True
    failures: int = 0
    tried: set[LayerPlan] = field(default_factory=set)

    def ask(self, best: LayerPlan, signals: Signals) -> LayerPlan | None:
        while self.size >= 1:
            for plan in self._candidates(best, signals):
                if plan not in self.tried:
                    self.tried.add(plan)
                    return plan
            self._turn()
        return None

    def tell(self, better: bool) -> None:
        self.failures = 0 if better else self.failures + 1
        if self.failures >= _PATIENCE:
            self._turn()

    def _turn(self) -> None:
        """The other way; once both were tried, smaller steps."""
        self.failures = 0
        self.size = self.size if self.out else self.size // 2
        self.out = not self.out

    def _candidates(self, best: LayerPlan, signals: Signals) -> list[LayerPlan]:
        gone = skipped_by(best)
        if self.out:
            ranked = signals.ranked(best)
            groups = [ranked[start : start + self.size] for start in range(0, self.size * _PATIENCE, self.size)]
            return [plan_without(self.num_layers, gone | set(group)) for group in groups if group]
        full = [part for part in signals.ranked(LayerPlan.full(self.num_layers)) if part in gone][::-1]
        groups = [full[start : start + self.size] for start in range(0, self.size * _PATIENCE, self.size)]
        return [plan_without(self.num_layers, gone - set(group)) for group in groups if group]
