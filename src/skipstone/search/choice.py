"""What a search says to draft with now."""

from __future__ import annotations

from dataclasses import dataclass

from ..plan import LayerPlan
from .pricing import Pricing


@dataclass(frozen=True, slots=True)
class Choice:
    """What to draft with now: ``rate`` tokens are expected per millisecond."""

    plan: LayerPlan
    depth: int
    acceptance: float
    rate: float
    pricing: Pricing
    deepest: int  # as far as drafts may go that are surer than usual

    @property
    def more(self) -> float:
        """Milliseconds that its last token takes."""
        pricing, depth = self.pricing, self.depth
        return pricing.slower * (pricing.cycle(self.plan, depth) - pricing.cycle(self.plan, depth - 1))

    def beside(self, nodes: int, siblings: int) -> float:
        """Milliseconds that so many choices add to the verification of ``nodes``."""
        pricing = self.pricing
        return pricing.slower * (pricing.verify_nodes(nodes + siblings) - pricing.verify_nodes(nodes))
