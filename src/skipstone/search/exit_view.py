"""What exits are worth for so many rows after so much context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .exit_prices import At, ExitForecast, ExitPrices, Heads, forecast
from .exit_sights import ExitSights
from .pricing import Costs

_THINK_AGAIN = 16  # proposals between two choices of an exit, fewer while little is known
_PRICE_AGAIN = 4  # choices between two looks at prices


@dataclass(frozen=True)
class ExitChoice:
    """What to draft with. ``rate``: tokens of all rows per millisecond that are expected of it."""

    exit: int
    sights: ExitSights
    prices: ExitPrices
    rate: float


@dataclass(frozen=True)
class Known:
    """What an exit is judged by: the sights of each, costs of steps, heads a draft may have, and ``slower``.

    Cycles that draft take that many times what their steps alone should.
    """

    sights: Callable[[int], ExitSights]
    costs: Costs
    heads: Heads
    slower: float
    deepest: int


@dataclass
class ExitView:
    """``speed`` is the best exit's over plain decoding, ``choice`` that exit where it pays."""

    layers: int
    at: At
    choice: ExitChoice | None = None
    speed: float = 0.0
    thoughts: int = 0
    _rate: float = 0.0
    _think_in: int = 0  # proposals until then
    _prices: dict[int, ExitPrices] = field(default_factory=dict)

    def due(self) -> bool:
        """Whether to think again, asked once a proposal."""
        self._think_in -= 1
        return self._think_in < 0

    def think(self, exits: Sequence[int], known: Known) -> None:
        """Choose among ``exits``."""
        if self.thoughts % _PRICE_AGAIN == 0:
            self._prices.clear()
        self.thoughts += 1
        self._think_in = min(2 * self.thoughts, _THINK_AGAIN)
        if not exits:
            return
        plain = self.at.rows / self.priced(exits[0], known).plain
        self._rate = max(self._rate, plain)
        found = {layer: self.forecast(layer, known) for layer in exits}
        best = max(found, key=lambda layer: found[layer].rate)
        self._rate = max(found[best].rate, plain)
        self.speed = found[best].rate / plain
        pays = self.speed > 1
        self.choice = ExitChoice(best, known.sights(best), self._prices[best], self._rate) if pays else None

    def forecast(self, layer: int, known: Known) -> ExitForecast:
        prices = self.priced(layer, known)
        rate = max(self._rate, self.at.rows / prices.plain)
        found = forecast(known.sights(layer), prices, rate, self.at.rows, known.deepest)
        return ExitForecast(found.tokens, found.ms * known.slower)

    def priced(self, layer: int, known: Known) -> ExitPrices:
        if layer not in self._prices:
            self._prices[layer] = self.at.prices(known.costs, self.layers, layer, known.heads)
        return self._prices[layer]

    def forget_thoughts(self) -> None:
        """Something new is known: think at once, and soon again."""
        self.thoughts = self._think_in = 0
