"""Which sublayers a plan would miss least for what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..drafting import DraftState
from ..plan import LayerPlan
from .disturbance import disturbances
from .pricing import Pricing
from .sublayer import Sublayer, searchable
from .window import Window


@dataclass(frozen=True)
class Rankings:
    """Those of one search: each plan's is made once."""

    by_plan: dict[LayerPlan, list[Sublayer]] = field(default_factory=dict)

    def signals(self, state: DraftState, window: Window, pricing: Pricing) -> RankingSignals:
        """What a searcher may ask now."""
        return RankingSignals(self, state, window, pricing)


@dataclass(frozen=True)
class RankingSignals:
    """Satisfies ``Signals``."""

    rankings: Rankings
    state: DraftState
    window: Window
    pricing: Pricing

    def ranked(self, plan: LayerPlan) -> list[Sublayer]:
        known = self.rankings.by_plan
        if plan not in known:
            known[plan] = self._ranked(plan)
        return known[plan]

    def _ranked(self, plan: LayerPlan) -> list[Sublayer]:
        missed = disturbances(self.state, self.window, plan)
        parts = [part for part in searchable(self.pricing.layers) if part in missed]
        prices = {kind: max(self.pricing.price(Sublayer(1, kind)), 1e-9) for kind in ("attn", "mlp")}
        return sorted(parts, key=lambda part: missed[part] / prices[part.kind])
