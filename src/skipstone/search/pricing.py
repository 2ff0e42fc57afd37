"""What a plan is worth: tokens per millisecond of drafting with it, over those of plain decoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from ..cost import CostModel, Step
from ..plan import LayerPlan
from .sublayer import Sublayer, plan_without

_HALVINGS = 7  # a share to a hundredth
_FRESH = 128  # tokens that prices are good for
_PAST_THE_TOP = 3  # depths without gain: verification costs by steps, so a top may have a dent


class Costs(Protocol):
    """What ``CostModel`` does here."""

    def ms(self, step: Step) -> float: ...


@dataclass(frozen=True)
class Uniform:
    """Costs where nothing was measured: an MLP as three attentions, whatever the nodes (weights are read once)."""

    layers: int

    def ms(self, step: Step) -> float:
        ran = step.plan.stop - step.plan.start
        parts = (ran - len(step.plan.skip_attn)) + 3 * (ran - len(step.plan.skip_mlp))
        return parts * (1 + 0.02 * (step.tokens - 1))


@dataclass(frozen=True, slots=True)
class Forecast:
    """The best draft length for a plan, and what it comes to. ``depth`` 0: plain decoding is faster."""

    depth: int
    speed: float  # over plain decoding


@dataclass(frozen=True)
class Pricing:
    """Costs for the rows and context at hand, each looked up once. ``head`` as in ``Step``, for drafts."""

    costs: Costs
    layers: int
    rows: int
    context: int
    head: bool | int = True
    deepest: int = 16
    width: int = 1  # choices of each drafted token that are verified
    slower: float = field(default=1.0, compare=False)  # what a cycle takes, of what its steps should
    _drafts: dict[LayerPlan, float] = field(default_factory=dict, compare=False, repr=False)
    _even: dict[LayerPlan, float] = field(default_factory=dict, compare=False, repr=False)
    _verified: dict[int, float] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def plain(self) -> float:
        """Milliseconds of a plain step."""
        return self._ms(LayerPlan.full(self.layers), 1)

    def draft(self, plan: LayerPlan) -> float:
        """Milliseconds of drafting one token."""
        if plan not in self._drafts:
            self._drafts[plan] = self._ms(plan, 1, self.head)
        return self._drafts[plan]

    def verify(self, depth: int) -> float:
        """Milliseconds of verifying ``depth`` drafted tokens."""
        return self.verify_nodes(depth * self.width + 1)

    def verify_nodes(self, nodes: int) -> float:
        """Milliseconds of a verification of ``nodes``, the root among them.

        No fewer than those of a plain step: so no plan is worth more than its tokens, however times were disturbed.
        """
        if nodes not in self._verified:
            self._verified[nodes] = max(self._ms(LayerPlan.full(self.layers), nodes), self.plain)
        return self._verified[nodes]

    def cycle(self, plan: LayerPlan, depth: int) -> float:
        """Milliseconds of drafting ``depth`` tokens and verifying them, by their steps."""
        return depth * self.draft(plan) + self.verify(depth)

    def forecast(self, plan: LayerPlan, acceptance: Callable[[int], float]) -> Forecast:
        """Tokens of a cycle over its cost, M / (K·c + v), at the best K; ``acceptance(i)`` is that at depth i = 1, …"""
        plain = self.plain / self.slower
        best, reached, tokens = Forecast(0, 1.0), 1.0, 1.0
        for depth in range(1, self.deepest + 1):
            reached *= acceptance(depth)
            tokens += reached
            speed = tokens * plain / self.cycle(plan, depth)
            if speed > best.speed or best.depth == 0:
                best = Forecast(depth, speed)
            elif depth > best.depth + _PAST_THE_TOP:
                break
        return best if best.speed > 1 else Forecast(0, best.speed)

    def at(self, plan: LayerPlan, share: float) -> float:
        """The speed over plain decoding, where ``share`` is the acceptance at every depth."""
        return self.forecast(plan, lambda _: share).speed

    def breaks_even(self, plan: LayerPlan) -> float:
        """The share at which the plan is as fast as plain decoding; 1 where it never is."""
        if plan not in self._even:
            low, high = 0.0, 1.0
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                low, high = (low, middle) if self.at(plan, middle) > 1 else (middle, high)
            self._even[plan] = high
        return self._even[plan]

    def price(self, part: Sublayer) -> float:
        """Milliseconds of one sublayer in a draft."""
        full, without = LayerPlan.full(self.layers), plan_without(self.layers, [part])
        return self._ms(full, 1, self.head) - self._ms(without, 1, self.head)

    def _ms(self, plan: LayerPlan, nodes: int, head: bool | int = True) -> float:
        return self.costs.ms(Step(plan, nodes, self.rows, self.context, head))


def costs_of(costs: CostModel | None, layers: int) -> Costs:
    return Uniform(layers) if costs is None else costs


@dataclass
class PriceList:
    """The prices of now: adding them up before every step would cost more than what changes from one to the next."""

    _pricing: Pricing | None = None
    _until: int = 0

    def at(self, fresh: Pricing, tokens: int) -> Pricing:
        """``fresh``, or what was looked up for it before ``tokens`` had been emitted, but no more than some ago."""
        old = self._pricing
        if old is None or tokens >= self._until or replace(fresh, context=old.context) != old or _far(fresh, old):
            self._pricing, self._until = fresh, tokens + _FRESH
            return fresh
        return old


def _far(one: Pricing, other: Pricing) -> bool:
    return abs(one.context - other.context) > _FRESH
