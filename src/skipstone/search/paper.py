"""SWIFT's own optimisation, constant by constant: matchness at a fixed number of skipped sublayers, then frozen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from threading import RLock
from time import perf_counter
from typing import Any

from ..drafting import DraftState
from ..errors import UsageError
from ..plan import LayerPlan
from ..telemetry import StepRecord
from .bayes import BayesSearcher
from .budget import Budget
from .event import Event
from .random_choice import RandomSearcher
from .replay import replay
from .report import SearchReport
from .searcher import NoSignals, Searcher, Trial
from .sublayer import Sublayer, count_at, plan_without, searchable, skipped_by, told_parts
from .window import Window

_EVENTS = 4096


@dataclass(frozen=True)
class PaperOptions:
    """The paper's symbols: ``ratio`` r, ``window`` γ, ``every`` β (0: random choices only), ``candidates`` S.

    ``kappa`` and ``alpha`` as in ``BayesSearcher``.
    """

    ratio: float = 0.45
    window: int = 32
    every: int = 25
    candidates: int = 1000
    patience: int = 300
    tolerance: float = 0.95
    seed: int = 0
    kappa: float = 2.5
    alpha: float = 1e-2

    def __post_init__(self) -> None:
        if not 0 <= self.ratio <= 0.9:
            raise UsageError(f"r={self.ratio} of the sublayers cannot be skipped: use 0 to 0.9")
        if self.window < 2:
            raise UsageError(f"a window of {self.window} verified tokens shows nothing: use 2 or more")
        if self.candidates < 1 or self.patience < 1:
            given = f"{self.candidates} candidates, patience {self.patience}"
            raise UsageError(f"a search of {given} finds nothing: use 1 or more of each")
        if self.every < 0 or not 0 <= self.tolerance <= 1:
            given = f"beta={self.every} and tolerance={self.tolerance}"
            raise UsageError(f"{given}: use 0 or more, and a matchness from 0 to 1")
        if not (0 <= self.kappa < inf and 0 < self.alpha < inf):
            given = f"kappa={self.kappa} and alpha={self.alpha}"
            raise UsageError(f"{given}: use a finite kappa of 0 or more, and a finite alpha above 0")


@dataclass
class PaperTuner:
    """The state of the search, over all the texts that a drafter serves.

    *Optimisation*: a candidate every step, whatever it costs; the one with the highest matchness is drafted with.
    *Acceleration*: what was found stays, for good. The first candidate is the uniform plan that drafting starts with.
    """

    num_layers: int
    options: PaperOptions = field(default_factory=PaperOptions)
    clock: Callable[[], float] = perf_counter
    lock: Any = field(default_factory=RLock)  # drafters of several threads share one

    plan: LayerPlan | None = field(init=False)  # what to draft with; None: the model is too shallow
    best: Trial | None = None
    budget: Budget = field(default_factory=lambda: Budget(1.0))  # keeps the account: nothing is refused
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    tokens: int = 0
    _searcher: Searcher | None = field(init=False)  # None: settled
    _trials: int = 0
    _failures: int = 0  # candidates in a row that were no better

    def __post_init__(self) -> None:
        count = count_at(self.num_layers, self.options.ratio)
        self.plan = uniform_at(self.num_layers, count) if count else None
        self._searcher = self._new_searcher(count) if count else None

    def _new_searcher(self, count: int) -> Searcher:
        options = self.options
        if options.every == 0:
            return RandomSearcher(self.num_layers, count, options.seed)
        return BayesSearcher(self.num_layers, count, options.every, options.seed, options.kappa, options.alpha)

    @property
    def searching(self) -> bool:
        return self._searcher is not None

    def told(self) -> str:
        """In one line, what is drafted with, how well it matched, and whether the search goes on."""
        plan, best, layers = self.plan, self.best, self.num_layers
        if plan is None:
            parts, ratio = len(searchable(layers)), self.options.ratio
            return f"not drafting: of {layers} layers {parts} sublayers may be skipped, and r={ratio} of them is none"
        seen = "not tried yet"
        if best is not None:
            seen = f"matchness {best.matchness:.2f}, the best of {self._trials} candidates tried"
        return f"drafting without {told_parts(plan)}, {seen}; {'still searching' if self.searching else 'frozen'}"

    def report(self) -> SearchReport:
        """All that happened, candidate by candidate."""
        with self.lock:
            return SearchReport.of(self.searching, self.plan, self.events, self.tokens, self.budget)

    def work(self, state: DraftState) -> float:
        """Try one candidate, once a text has γ verified tokens. Seconds it took."""
        if self._searcher is None:
            return 0.0
        window = Window.newest(state, self.options.window)
        if len(window) < min(self.options.window, state.limits.nodes):
            return 0.0
        began = self.clock()
        self._try(state, window, self._searcher)
        seconds = self.clock() - began
        self.budget.spent_ms += 1e3 * seconds
        return seconds

    def observe(self, record: StepRecord) -> None:
        self.tokens += record.emitted
        self.budget.ran_ms += 1e3 * record.timing.total_s

    def release(self, row: int) -> None:
        """The text in ``row`` is over: what was found stays."""

    def _try(self, state: DraftState, window: Window, searcher: Searcher) -> None:
        began = self.clock()
        plan = searcher.ask(NoSignals()) if self._trials else self.plan
        assert plan is not None
        trial = Trial(plan, replay(state, window, plan), len(window), speed=0.0)  # the paper prices nothing
        searcher.tell(trial)
        self._trials += 1
        self._log("trial", trial, began)
        self._compare(trial)
        if self._enough:
            self._searcher = None
            self._log("settled", self.best or trial, self.clock())

    def _compare(self, trial: Trial) -> None:
        self._failures += 1
        if self.best is None or trial.matchness > self.best.matchness:
            self.best, self.plan, self._failures = trial, trial.plan, 0
            self._log("adopted", trial, self.clock())

    @property
    def _enough(self) -> bool:
        options = self.options
        good = self.best is not None and self.best.matchness > options.tolerance
        return good or self._trials >= options.candidates or self._failures >= options.patience

    def _log(self, what: str, trial: Trial, began: float) -> None:
        ms = 1e3 * (self.clock() - began)
        self.events.append(Event(what, self.tokens, trial.plan, trial.hits, trial.of, ms=ms))


def uniform_at(num_layers: int, count: int) -> LayerPlan:
    """Every other layer skipped, evenly less of that or more, so that ``count`` sublayers are left out."""
    every_other = skipped_by(LayerPlan.uniform(num_layers))
    odd = [part for part in searchable(num_layers) if part in every_other]
    even = [part for part in searchable(num_layers) if part not in every_other]
    return plan_without(num_layers, _spread(odd, count) + _spread(even, count - len(odd)))


def _spread(parts: Sequence[Sublayer], count: int) -> list[Sublayer]:
    """``count`` of them, or all there are, at even distances."""
    count = min(max(count, 0), len(parts))
    return [parts[n * len(parts) // count] for n in range(count)]
