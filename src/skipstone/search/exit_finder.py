"""Which exit to draft with: what each is worth, by what was seen of it, for the rows and context at hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from ..drafting import DraftState
from ..errors import UsageError
from ..telemetry import StepRecord
from .budget import Budget
from .exit_prices import At, Heads
from .exit_sample import ExitSample, Score, show, surveyed
from .exit_sights import ExitSights
from .exit_view import ExitChoice, ExitView, Known
from .pace import Pace
from .pricing import costs_of

_FEW = 8  # exits that are surveyed at once; of more, these and then those between the best ones
_WATCHED = 3  # exits tapped at a time
_NEARBY = 128  # tokens of context that cost the same
_NODES = 17  # of a draft that are priced; a deeper one has more
_VIEWS = 64  # numbers of rows and contexts that are kept in mind
_EVENTS = 4096
_TRAINED = 0.5  # agreement that training would hardly better


_Place = tuple[int, int, bool]  # rows, part of the context, whether nothing was measured


@dataclass(frozen=True)
class ExitOptions:
    """``window``: positions that exits are compared on. ``share`` of all time for that, once they were surveyed."""

    window: int = 16
    share: float = 0.01
    deepest: int = 16

    def __post_init__(self) -> None:
        if self.window < 2:
            raise UsageError(f"exits compared on {self.window} tokens show nothing: use 2 or more")
        if not 0 < self.share <= 1:
            raise UsageError(f"a budget of {self.share} of the run: use a share above 0, up to 1")
        if self.deepest < 1:
            raise UsageError(f"a draft of {self.deepest} tokens: use 1 or more")


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
    pace: Pace = field(default_factory=Pace)
    clock: Callable[[], float] = perf_counter

    sights: dict[int, ExitSights] = field(default_factory=dict)
    budget: Budget = field(init=False)
    tokens: int = 0
    history: deque[Chosen] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    choice: ExitChoice | None = None  # the newest
    _views: dict[_Place, ExitView] = field(default_factory=dict)
    _surveyed: int = 0  # positions that a survey has shown
    _samples: list[ExitSample] = field(default_factory=list)
    _turn: int = 0  # whose turn it is to be watched

    def __post_init__(self) -> None:
        self.budget = Budget(self.options.share)
        self._surveyed = self.options.window if self.trained and len(self.exits) == 1 else 0

    @property
    def exit(self) -> int | None:
        """What is drafted with, if anything is."""
        return None if self.choice is None else self.choice.exit

    @property
    def agreement(self) -> float:
        """Of the exit in use; of none, what one is believed to have."""
        return 0.5 if self.choice is None else self.choice.sights.agreement.share

    def told(self) -> str:
        """In one line, what is drafted with, or why nothing is."""
        if not self.exits:
            return "not drafting: a model of a single layer has none to exit from"
        if self.choice is not None:
            accepted = self.choice.sights.agreement.share
            return f"drafting with exit {self.choice.exit} of {self.layers} layers, which agrees {accepted:.0%}"
        seen = [layer for layer in self.exits if self._seen(layer)]
        if not seen:
            return "not drafting: too little text so far to compare exits on"
        best = max(seen, key=lambda layer: self.sights[layer].agreement.share * (self.layers - layer))
        share = self.sights[best].agreement.share
        enough = self.trained or share >= _TRAINED
        hint = ", too little to pay here" if enough else ": train it, or use skip or ngram"
        return f"not drafting: agreement at exit {best} is {share:.0%}{hint}"

    # what to draft with

    def choose(self, state: DraftState) -> ExitChoice | None:
        """The exit of now; None while plain decoding is faster."""
        view = self._view(state)
        if view.due():
            view.think(self._candidates(), self._known(state))
            exit_layer = None if view.choice is None else view.choice.exit
            if (self.history[-1].exit if self.history else None) != exit_layer:
                self.history.append(Chosen(self.tokens, exit_layer, view.speed))
        self.choice = view.choice
        return view.choice

    def _view(self, state: DraftState) -> ExitView:
        rows, part = len(state.rows), max(map(len, state.history)) // _NEARBY
        place = (rows, part, state.costs is None)  # prices that are made up say nothing where others were measured
        view = self._views.pop(place, None)
        if view is None:
            nodes = max(self.options.deepest + 1, _NODES)
            view = ExitView(self.layers, At(rows, part * _NEARBY + _NEARBY // 2, nodes))
        self._views[place] = view  # the newest one last
        if len(self._views) > _VIEWS:
            self._views.pop(next(iter(self._views)))
        return view

    def _candidates(self) -> Sequence[int]:
        """Exits something is known of; at first all that the model was trained for."""
        seen = [layer for layer in self.exits if self._seen(layer)]
        return seen or (self.exits if self.trained else ())

    def _known(self, state: DraftState) -> Known:
        costs = costs_of(state.costs, self.layers)
        return Known(self._of, costs, self.heads, self.pace.slower, self.options.deepest)

    def _of(self, layer: int) -> ExitSights:
        if layer not in self.sights:
            self.sights[layer] = ExitSights.hopeful() if self.trained else ExitSights()
        return self.sights[layer]

    def _seen(self, layer: int) -> bool:
        return layer in self.sights and self.sights[layer].seen

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
            self._look_at_samples(state, score)
        for view in self._views.values():
            view.forget_thoughts()
        seconds = self.clock() - began
        self.budget.spent_ms += 1e3 * seconds
        return seconds

    def watched(self) -> tuple[int, ...]:
        """Exits whose streams are wanted of the next verification: none while there is no time to look at them."""
        others = [layer for layer in self.exits if layer != self.exit]
        if not self._surveyed or not others or not self.budget.affords(0.0, loan_ms=0.0):
            return ()
        near = sorted(others, key=self._distance)[: _WATCHED - 1]
        far = others[self._turn % len(others)]
        return tuple(sorted({*near, far}))

    def collect(self, sample: ExitSample) -> None:
        """Streams of a verification, to be looked at when there are enough."""
        if sum(map(len, self._samples)) < self.options.window:
            self._samples.append(sample)

    def _distance(self, layer: int) -> float:
        """Of an exit from the one in use, or from being any use."""
        if self.exit is not None:
            return abs(layer - self.exit)
        return -self.sights[layer].agreement.share if self._seen(layer) else 0.0

    def _look_at_samples(self, state: DraftState, score: Score) -> None:
        self._turn += 1
        network = state.network
        fitting = [sample for sample in self._samples if sample.fits(network.device, network.dtype)]
        self._samples.clear()
        for layer in sorted({layer for sample in fitting for layer in sample.streams}):
            show(fitting, layer, score, self._of(layer))

    def _survey_due(self, state: DraftState) -> bool:
        """Once there is half a window of text, and again with a whole one."""
        window = self.options.window
        if self._surveyed >= window or not self.exits:
            return False
        return _room(state, window) >= (window if self._surveyed else window // 2)

    def _survey(self, state: DraftState, score: Score) -> None:
        """All exits of the newest text; more are shown between the best one and the one below it."""
        sample = [surveyed(state, self.exits, self.options.window)]
        self._surveyed = len(sample[0])
        shown: list[int] = []
        more: Sequence[int] = _spread(self.exits, _FEW)
        while more:
            for layer in more:
                show(sample, layer, score, self._of(layer))
            shown += more
            more = self._between(state, shown)

    def _between(self, state: DraftState, shown: Sequence[int]) -> Sequence[int]:
        view, known = self._view(state), self._known(state)
        best = max(shown, key=lambda layer: view.forecast(layer, known).rate)
        below = max((layer for layer in shown if layer < best), default=0)
        inside = [layer for layer in self.exits if below < layer < best]
        return inside[len(inside) // 2 :][:1]


def _room(state: DraftState, size: int) -> int:
    """Positions of the longest text that one run can show, ``size`` at most; the pending token has not run."""
    return min(max(map(len, state.history)) - 1, state.limits.nodes, size)


def _spread(exits: Sequence[int], count: int) -> Sequence[int]:
    """``count`` of them at even distances, the last one among them; all where there are no more."""
    if len(exits) <= count:
        return exits
    return [exits[(place + 1) * len(exits) // count - 1] for place in range(count)]
