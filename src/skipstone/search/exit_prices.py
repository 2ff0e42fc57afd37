"""What the parts of a cycle with an early exit cost, for the rows and context at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..cost import Step
from ..curve import Curve
from ..plan import LayerPlan
from .exit_sights import ExitSights
from .pricing import Costs

_KNOTS = (1, 2, 3, 4, 6, 8, 12)


@dataclass(frozen=True)
class ExitPrices:
    """Milliseconds. ``early[n]`` and ``rest[n]`` are those of n nodes, the rest with the whole head."""

    plain: float
    look: float  # the draft's head, over one node
    head: bool | int  # the head that this is the price of, as in ``Step``
    early: tuple[float, ...]
    rest: tuple[float, ...]

    @property
    def most(self) -> int:
        """Nodes that are priced."""
        return len(self.rest) - 1

    @property
    def least(self) -> float:
        """A cycle that drafts nothing, apart from ``look``."""
        return self.early[1] + self.rest[1]

    def late(self, ran: int, more: int) -> float:
        """A pass of ``more`` nodes through the early layers, and what they add to the rest of ``ran`` nodes."""
        return self.early[more] + self.rest[ran + more] - self.rest[ran]


@dataclass(frozen=True, slots=True)
class ExitForecast:
    """Tokens and milliseconds of a cycle, as far as they can be told before it."""

    tokens: float
    ms: float

    @property
    def rate(self) -> float:
        return self.tokens / self.ms


@dataclass(frozen=True)
class Heads:
    """Heads that a draft may have, as in ``Step``: tokens that each misses in a look, of those the whole has right."""

    missed: Mapping[bool | int, float]


@dataclass(frozen=True, slots=True)
class At:
    """What prices are asked for: ``nodes`` at most."""

    rows: int
    context: int
    nodes: int

    def prices(self, costs: Costs, layers: int, exit_layer: int, heads: Heads) -> ExitPrices:
        """With the head of ``heads`` that costs less, what it does not know counted in."""
        full, until = LayerPlan.full(layers), LayerPlan.until(exit_layer)
        early = self._by_nodes(costs, until, head=False)
        rest = self._by_nodes(costs, LayerPlan.rest(exit_layer, layers), head=True)
        plain = self._ms(costs, full, 1, head=True)
        looks = {head: max(self._ms(costs, until, 1, head) - early[1], 0.0) for head in heads.missed}
        head = min(looks, key=lambda each: looks[each] + heads.missed[each] * plain / self.rows)
        return ExitPrices(plain, looks[head], head, early, rest)

    def _by_nodes(self, costs: Costs, plan: LayerPlan, head: bool) -> tuple[float, ...]:
        """A curve through some of the numbers of nodes is as good as all of them, and takes less time to ask for."""
        at = [nodes for nodes in _KNOTS if nodes < self.nodes] + [self.nodes]
        curve = Curve(tuple(map(float, at)), tuple(self._ms(costs, plan, nodes, head) for nodes in at))
        return (0.0, *(curve(nodes) for nodes in range(1, self.nodes + 1)))

    def _ms(self, costs: Costs, plan: LayerPlan, nodes: int, head: bool | int) -> float:
        return costs.ms(Step(plan, nodes, self.rows, self.context, head))


def forecast(sights: ExitSights, prices: ExitPrices, rate: float, rows: int, deepest: int) -> ExitForecast:
    """A cycle that drafts a token where it is worth its time, at ``rate`` tokens per millisecond, as ``Worth`` does.

    Looking tells how sure the exit is; a token is run where it is sure enough, and the next look follows.
    """
    tokens, ms = float(rows), prices.least
    groups = sights.groups if rows == 1 else [(1.0, sights.mean)]  # rows are not sure at the same time
    going = reach = 1.0  # the chance that drafting goes on so far; that all so far are right, given that
    for depth in range(1, min(deepest, prices.most - 1) + 1):
        node = prices.late(depth, 1)
        worth = [(share, chance) for share, chance in groups if rows * reach * chance > rate * node]
        run, right = _sums(worth)
        gain = rows * reach * right - rate * (prices.look + run * node)
        if gain <= 0 or run == 0:
            break
        tokens += going * rows * reach * right
        ms += going * (prices.look + run * node)
        going, reach = going * run, reach * right / run
    return ExitForecast(tokens, ms)


def _sums(groups: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Share of tokens in the groups; share of tokens in them and right."""
    return sum(share for share, _ in groups), sum(share * chance for share, chance in groups)
