"""The default searcher: how many of the least missed sublayers can go, then one change after another, each measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..plan import LayerPlan
from .searcher import Signals, Trial
from .sublayer import Sublayer, plan_without, skipped_by

_STARTS = (0.5, 0.25, 0.125)  # of the ranked sublayers: the first looks
_CLOSE = 0.02  # of them: looking closer than this is left to single changes
_LOOKS = 14
_OUT, _BACK = 3, 6  # groups tried of one size: a sublayer missed much may look idle, so more are tried for return


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
    _looked_at: LayerPlan | None = None  # the plan without so many
    _told: dict[LayerPlan, Trial] = field(default_factory=dict)  # the newest of each plan
    _changes: Changes | None = None
    _tried: set[LayerPlan] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._tried.add(LayerPlan.full(self.num_layers))  # leaves out nothing

    def ask(self, signals: Signals) -> LayerPlan | None:
        if not self._ranking:
            self._ranking = signals.ranked(LayerPlan.full(self.num_layers))
        if self._changes is None:
            self._asked = _next_look(self._looks, len(self._ranking))
            if self._asked is not None:
                self._looked_at = plan_without(self.num_layers, self._ranking[: self._asked])
                return self._looked_at
            self._changes = Changes(self.num_layers, max(1, len(self._ranking) // 8), self._tried)
        assert self.best is not None
        return self._changes.ask(self.best.plan, signals)

    def tell(self, trial: Trial) -> None:
        """A plan may be told of again, by what more is known of it."""
        self._tried.add(trial.plan)
        if self._changes is None and self._asked is not None and trial.plan == self._looked_at:
            self._looks[self._asked] = trial.speed
        self._told[trial.plan] = trial
        self.best = max(self._told.values(), key=lambda each: each.speed)


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
    tried: set[LayerPlan]
    out: bool = True

    def ask(self, best: LayerPlan, signals: Signals) -> LayerPlan | None:
        while self.size >= 1:
            new = (plan for plan in self._moves(best, signals) if plan not in self.tried)
            if (plan := next(new, None)) is not None:
                return plan
            self._turn()
        return None

    def _turn(self) -> None:
        """The other way; once both were tried, smaller steps."""
        self.size = self.size if self.out else self.size // 2
        self.out = not self.out

    def _moves(self, best: LayerPlan, signals: Signals) -> Iterator[LayerPlan]:
        gone = skipped_by(best)
        if self.out:
            for group in _groups(signals.ranked(best), self.size, _OUT):
                yield plan_without(self.num_layers, gone | group)
        else:
            missed = [part for part in signals.ranked(LayerPlan.full(self.num_layers)) if part in gone][::-1]
            for group in _groups(missed, self.size, _BACK):
                yield plan_without(self.num_layers, gone - group)


def _groups(parts: Sequence[Sublayer], size: int, most: int) -> list[set[Sublayer]]:
    starts = range(0, min(len(parts), most * size), size)
    return [set(parts[start : start + size]) for start in starts]
