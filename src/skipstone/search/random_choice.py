"""A searcher that tries sublayers at random, always as many of them."""

from __future__ import annotations

from dataclasses import dataclass

from ..noise import Stream, uniform
from ..plan import LayerPlan
from .searcher import Signals, Trial
from .sublayer import Sublayer, plan_without, searchable


@dataclass
class RandomSearcher:
    """Leaves out ``count`` sublayers drawn anew each time; ``seed`` says which. It learns nothing, and never ends."""

    num_layers: int
    count: int
    seed: int = 0
    _asked: int = 0

    def ask(self, signals: Signals) -> LayerPlan | None:
        self._asked += 1
        return plan_without(self.num_layers, self._drawn(self._asked))

    def tell(self, trial: Trial) -> None:
        pass

    def _drawn(self, turn: int) -> list[Sublayer]:
        """The first ``count`` of a shuffle keyed by seed and turn."""
        parts = searchable(self.num_layers)
        draws = [uniform(self.seed, turn * len(parts) + n, Stream.SEARCH) for n in range(len(parts))]
        order = sorted(range(len(parts)), key=draws.__getitem__)
        return [parts[n] for n in order[: self.count]]
