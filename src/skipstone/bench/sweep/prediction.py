"""How fast settings would decode, by what their exits agree on and what steps cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...cost import Step
from ...plan import LayerPlan
from ...search.pricing import Costs
from .agreement import ByDraft
from .setting import Setting
from .texts import Text
from .walk import Walk


@dataclass(frozen=True)
class Prices:
    """Milliseconds on this machine, after ``context`` tokens."""

    costs: Costs
    layers: int
    context: int

    @property
    def plain(self) -> float:
        return self._ms(LayerPlan.full(self.layers), 1, True)

    def cycle(self, setting: Setting, drafted: int) -> float:
        """``drafted`` early passes of one node; the last node and all siblings through the early layers; the rest of
        the layers over all nodes."""
        if drafted < 1:
            return self.plain
        early, siblings = LayerPlan.until(setting.exit), drafted * (setting.width - 1)
        drafting = drafted * self._ms(early, 1, setting.step_head) + self._ms(early, 1 + siblings, False)
        return drafting + self._ms(LayerPlan.rest(setting.exit, self.layers), 1 + drafted + siblings, True)

    def _ms(self, plan: LayerPlan, nodes: int, head: bool | int) -> float:
        return self.costs.ms(Step(plan, nodes, 1, self.context, head))


@dataclass(frozen=True)
class Prediction:
    """``speed`` over plain decoding. ``agreement``: output tokens that were the draft's first choice, of 1."""

    setting: Setting
    agreement: float
    speed: float
    walk: Walk

    @property
    def tokens_per_cycle(self) -> float:
        return self.walk.tokens_per_cycle


def predict(setting: Setting, texts: Sequence[Text], looks: Sequence[ByDraft], prices: Prices) -> Prediction:
    """``looks`` are what one pass over each text showed."""
    walk, right = Walk(), 0
    for text, look in zip(texts, looks, strict=True):
        places = look[setting.exit, setting.head]
        right += places.count(0)
        walk.go(places, text.budget, setting.depth, setting.width)
    drafted = sum(count * prices.cycle(setting, depth) for depth, count in walk.cycles.items())
    return Prediction(setting, right / walk.tokens, walk.tokens * prices.plain / drafted, walk)
