"""Which exit to draft with: what each is worth, by what was seen of it, for the rows and context at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from ..drafting import DraftState
from ..errors import UsageError
from ..telemetry import StepRecord
from .budget import Budget
from .exit_prices import At, ExitForecast, ExitPrices, Heads, forecast
from .exit_sample import ExitSample, Score, surveyed
from .exit_sights import ExitSights
from .pricing import costs_of

_FEW = 8  # exits that are surveyed at once; of more, these and then those between the best ones
_THINK_AGAIN = 16  # proposals between two choices of an exit, fewer while little is known
_PRICE_AGAIN = 4  # choices between two looks at prices
_WATCHED = 3  # exits tapped at a time
_NEARBY = 128  # tokens of context that cost the same


@dataclass(frozen=True)
class ExitOptions:
    """``window``: positions that exits are compared on. ``share`` of all time for that, ``loan`` plain steps lent."""

    window: int = 16
    share: float = 0.01
    loan: int = 80
    deepest: int = 16

    def __post_init__(self) -> None:
        if self.window < 2:
            raise UsageError(f"exits compared on {self.window} tokens show nothing: use 2 or more")
        if not 0 < self.share <= 1:
            raise UsageError(f"a budget of {self.share} of the run: use a share above 0, up to 1")
        if self.loan < 0 or self.deepest < 1:
            raise UsageError(f"loan={self.loan} and depth={self.deepest}: use 0 or more, and 1 or more")


@dataclass(frozen=True)
class ExitChoice:
    """What to draft with. ``rate``: tokens of all rows per millisecond that are expected of it."""

    exit: int
    sights: ExitSights
    prices: ExitPrices
    rate: float


@dataclass(frozen=True, slots=True)
class Chosen:
    """An exit taken up, or None: none pays. ``tokens`` had been emitted by then; ``speed`` over plain decoding."""

    tokens: int
    exit: int | None
    speed: float


@dataclass
class ExitFinder:
    """The state of the choice, over all texts that a drafter serves. ``exits`` are those to choose from.

    Exits that a model was ``trained`` for are tried at once. Others are surveyed first: one run over the newest text
    shows all of them. After that, drafts show what becomes of the exit in use, and taps of verifications the others.
    """

    layers: int
    exits: tuple[int, ...]
    trained: bool
    options: ExitOptions = field(default_factory=ExitOptions)
    heads: Heads = field(default_factory=lambda: Heads({True: 0.0}))
    clock: Callable[[], float] = perf_counter

    sights: dict[int, ExitSights] = field(default_factory=dict)
    budget: Budget = field(init=False)
    tokens: int = 0
    history: list[Chosen] = field(default_factory=list)
    _surveyed: int = 0  # positions that a survey has shown
    _thoughts: int = 0  # since then
    _choice: ExitChoice | None = None
    _rate: float = 0.0
    _at: tuple[int, int] = (0, 0)  # rows, part of the context
    _think_in: int = 0  # proposals until then
    _price_in: int = 0  # choices until then
    _prices: dict[int, ExitPrices] = field(default_factory=dict)
    _samples: list[ExitSample] = field(default_factory=list)
    _turn: int = 0  # whose turn it is to be watched

    def __post_init__(self) -> None:
        self.budget = Budget(self.options.share)
        self._surveyed = self.options.window if self.trained and len(self.exits) == 1 else 0

    @property
    def exit(self) -> int | None:
        """What is drafted with, if anything is."""
        return None if self._choice is None else self._choice.exit

    @property
    def agreement(self) -> float:
        """Of the exit in use; of none, what one is believed to have."""
        return 0.5 if self._choice is None else self._choice.sights.agreement.share

    def told(self) -> str:
        """In one line, what is drafted with, or why nothing is."""
        if not self.exits:
            return f"not drafting: a model of {self.layers} layers has none to exit from"
        seen = {layer: self.sights[layer].agreement.share for layer in self.exits if self._seen(layer)}
        if self._choice is not None:
            accepted = self._choice.sights.agreement.share
            return f"drafting with exit {self._choice.exit} of {self.layers} layers, which agrees {accepted:.0%}"
        if not seen:
            return "not drafting: too little text so far to compare exits on"
        best = max(seen, key=lambda layer: self._speed(layer))
        hint = ", too little to pay here" if self.trained else ": train it, or use skip or ngram"
        return f"not drafting: agreement at exit {best} is {seen[best]:.0%}{hint}"

    # what to draft with

    def choose(self, state: DraftState) -> ExitChoice | None:
        """The exit of now; None while plain decoding is faster."""
        at = (len(state.rows), max(map(len, state.history)) // _NEARBY)
        if at != self._at or self._think_in <= 0:
            self._think(state, at)
        self._think_in -= 1
        return self._choice

    def _think(self, state: DraftState, at: tuple[int, int]) -> None:
        if at != self._at or self._price_in <= 0:
            self._prices.clear()
            self._price_in = _PRICE_AGAIN
        self._thoughts += 1
        self._at, self._think_in, self._price_in = at, min(2 * self._thoughts, _THINK_AGAIN), self._price_in - 1
        known = [layer for layer in self.exits if self.trained or self._seen(layer)]
        if not known:
            return
        plain = len(state.rows) / self._priced(state, known[0]).plain
        self._rate = max(self._rate, plain)
        found = {layer: self._forecast(state, layer) for layer in known}
        best = max(found, key=lambda layer: found[layer].rate)
        self._rate = max(found[best].rate, plain)
        pays = found[best].rate > plain
        self._take_up(best if pays else None, found[best].rate / plain)

    def _take_up(self, layer: int | None, speed: float) -> None:
        if not self.history or self.history[-1].exit != layer:
            self.history.append(Chosen(self.tokens, layer, speed))
        self._choice = None
        if layer is not None:
            self._choice = ExitChoice(layer, self._of(layer), self._prices[layer], self._rate)

    def _forecast(self, state: DraftState, layer: int) -> ExitForecast:
        prices, rows = self._priced(state, layer), len(state.rows)
        return forecast(self._of(layer), prices, self._rate, rows, self.options.deepest)

    def _priced(self, state: DraftState, layer: int) -> ExitPrices:
        if layer not in self._prices:
            rows, part = self._at
            at = At(rows, part * _NEARBY + _NEARBY // 2, self.options.deepest + 1)
            self._prices[layer] = at.prices(costs_of(state.costs, self.layers), self.layers, layer, self.heads)
        return self._prices[layer]

    def _of(self, layer: int) -> ExitSights:
        if layer not in self.sights:
            self.sights[layer] = ExitSights.hopeful() if self.trained else ExitSights()
        return self.sights[layer]

    def _seen(self, layer: int) -> bool:
        return layer in self.sights and self.sights[layer].seen

    def _speed(self, layer: int) -> float:
        """Over plain decoding, as it was last priced; agreement where it never was."""
        if layer not in self._prices:
            return self.sights[layer].agreement.share
        found = forecast(self._of(layer), self._prices[layer], self._rate, self._at[0], self.options.deepest)
        return found.rate * self._prices[layer].plain / self._at[0]

    # what is seen

    def observe(self, record: StepRecord) -> None:
        self.tokens += record.emitted
        self.budget.ran_ms += 1e3 * record.timing.total_s

    def work(self, state: DraftState, score: Score) -> float:
        """Compare exits by a draft's head, where that is due and there is time for it. Seconds it took."""
        due = self._survey_due(state)
        if not due and sum(map(len, self._samples)) < self.options.window:
            return 0.0
        began = self.clock()
        if due:
            self._survey(state, score)
        else:
            self._look_at_samples(score)
        seconds = self.clock() - began
        self.budget.spent_ms += 1e3 * seconds
        return seconds

    def _survey_due(self, state: DraftState) -> bool:
        """Once there is half a window of text, and again with a whole one."""
        window = self.options.window
        if self._surveyed >= window or not self.exits:
            return False
        return _room(state, window) >= (window if self._surveyed else window // 2)

    def watched(self) -> tuple[int, ...]:
        """Exits whose streams are wanted of the next verification: none while there is no time to look at them."""
        others = [layer for layer in self.exits if layer != self.exit]
        if not self._surveyed or not others or self.budget.ran_ms < self.budget.due(0.0):
            return ()
        near = sorted(others, key=self._distance)[: _WATCHED - 1]
        far = others[self._turn % len(others)]
        return tuple(sorted({*near, far}))

    def collect(self, sample: ExitSample) -> None:
        """Streams of a verification, to be looked at when there are enough."""
        self._samples.append(sample)

    def _distance(self, layer: int) -> float:
        """Of an exit from the one in use, or from being any use."""
        return abs(layer - self.exit) if self.exit is not None else -self._speed_if_seen(layer)

    def _speed_if_seen(self, layer: int) -> float:
        return self._speed(layer) if self._seen(layer) else 0.0

    def _look_at_samples(self, score: Score) -> None:
        self._turn += 1
        for sample in self._samples:
            for layer in sample.streams:
                sample.show(score, layer, self._of(layer))
        self._samples.clear()
        self._think_in = 0

    def _survey(self, state: DraftState, score: Score) -> None:
        sample = surveyed(state, self.exits, self.options.window)
        self._surveyed, self._thoughts, self._think_in = len(sample), 0, 0
        self._at = (len(state.rows), max(map(len, state.history)) // _NEARBY)
        shown = list(_spread(self.exits, _FEW))
        self._rate = max(self._rate, len(state.rows) / self._priced(state, shown[0]).plain)
        for layer in shown:
            sample.show(score, layer, self._of(layer))
        while (between := self._between(state, shown)) is not None:
            sample.show(score, between, self._of(between))
            shown.append(between)

    def _between(self, state: DraftState, shown: Sequence[int]) -> int | None:
        """An exit halfway from the best of those shown to the one below it."""
        for layer in shown:
            self._priced(state, layer)
        best = max(shown, key=self._speed)
        below = max((layer for layer in shown if layer < best), default=0)
        inside = [layer for layer in self.exits if below < layer < best]
        return inside[len(inside) // 2] if inside else None


def _room(state: DraftState, size: int) -> int:
    """Positions of the longest text that one run can show, ``size`` at most; the pending token has not run."""
    return min(max(map(len, state.history)) - 1, state.limits.nodes, size)


def _spread(exits: Sequence[int], count: int) -> Sequence[int]:
    """``count`` of them at even distances, the last one among them; all where there are no more."""
    if len(exits) <= count:
        return exits
    return [exits[(place + 1) * len(exits) // count - 1] for place in range(count)]
