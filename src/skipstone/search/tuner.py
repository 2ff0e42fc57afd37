"""Search while text is generated: which plan to draft with, how far, and when to look for another one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter

from ..drafting import DraftState
from ..plan import LayerPlan
from ..telemetry import StepRecord
from .account import told
from .book import Book, Tally
from .budget import Budget
from .choice import Choice
from .contest import Contest
from .event import Event
from .found import Found, Warm
from .in_use import InUse
from .pace import Pace
from .pricing import Forecast, PriceList, Pricing, costs_of
from .ranking import Rankings
from .replay import replay
from .report import SearchReport
from .searcher import Searcher, Trial
from .trust import MARGIN, Trust
from .tuner_options import TunerOptions
from .window import Window

_EVENTS = 4096
_SERVED = 256  # drafted tokens that were judged, before the search after a plan gets a loan: what went first was luck
_SHOWN = 32  # before its plan is worth keeping for others: trials err
_HOPELESS = 8  # trials without a plan that pays, or a better one than is in use: nothing is borrowed from here on
_CAUTIOUS = 2  # tokens drafted at most while a plan's own drafts look worse than its trials, but are few


@dataclass
class Tuner:
    """The state of a search, over all the texts that a drafter serves.

    *Optimisation*: one trial a step, while time allows. *Acceleration*: the plan found is used, and nothing is tried.
    A plan takes another one's place only where luck hardly explains its trial, or after a ``Contest`` on fresh text.
    A plan whose drafts stop paying is dropped at once, and the search opens again on the text from there on.
    """

    network_layers: int
    new_searcher: Callable[[], Searcher]
    options: TunerOptions = field(default_factory=TunerOptions)
    head: bool | int = True
    coverage: float = 1.0  # of the tokens, those that the head of drafts knows
    width: int = 1
    pace: Pace = field(default_factory=Pace)
    clock: Callable[[], float] = perf_counter

    use: InUse | None = None
    book: Book = field(default_factory=Book)
    budget: Budget = field(init=False)
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    tokens: int = 0
    best: Trial | None = None  # of this search, whether it pays or not
    warm: Warm | None = None  # to be tried first
    contest: Contest | None = None  # waits for fresh text; nothing else is tried meanwhile
    _searcher: Searcher | None = None  # None: settled
    trials: int = 0  # plans tried in this search
    _improved: int = 0  # how many had been when the best was
    before: InUse | None = None  # the best plan that was in use earlier, of those that paid to the end
    drops: int = 0  # of plans that stopped paying
    priced_out: Pricing | None = None  # where the plan in use does not pay for the rows and context of now: these
    trust: Trust = field(default_factory=Trust)
    _lends_at: int | None = None  # tokens, when the loan after a drop begins: first, plain speed is to be back
    _shown: Found | None = None
    _plain_ms: float = 0.0  # a plain step of late, where nobody measured what steps cost
    _prices: PriceList = field(default_factory=PriceList)
    _rankings: Rankings = field(default_factory=Rankings)

    def __post_init__(self) -> None:
        self.budget = Budget(self.options.share)
        self._searcher = self.new_searcher()

    @property
    def plan(self) -> LayerPlan | None:
        """What is drafted with, if anything is."""
        return None if self.use is None else self.use.plan

    @property
    def searching(self) -> bool:
        return self._searcher is not None

    def told(self) -> str:
        """In one line, what is drafted with, or why nothing is."""
        return told(self)

    def report(self) -> SearchReport:
        """All that happened, candidate by candidate."""
        return SearchReport.of(self.searching, self.plan, self.events, self.tokens, self.budget)

    @property
    def found(self) -> Found | None:
        """The newest plan that its own drafts have shown to pay, unless it has stopped paying since."""
        shown = self._shown
        settled = shown is not None and shown.plan == self.plan and not self.searching
        return None if shown is None else replace(shown, settled=settled)

    # what to draft with

    def choose(self, state: DraftState) -> Choice | None:
        """The plan of now with the draft length of now; None while plain decoding is faster."""
        use, self.priced_out = self.use, None
        if use is None:
            return None
        pricing, deepest = self._pricing(state), self.options.deepest
        if use.drift.found:
            return self._give_up(state)
        use.drift.gone = pricing.breaks_even(use.plan)
        found = pricing.forecast(use.plan, use.acceptance)
        if found.depth == 0:
            found = pricing.forecast(use.plan, use.promised)
            if found.depth == 0:
                self.priced_out = pricing
                return None  # for these rows and this context: nothing is said against the plan
            if use.proved:
                return self._give_up(state)
            deepest = min(deepest, _CAUTIOUS)
            found = Forecast(min(found.depth, deepest), found.speed)
        elif (before := self._better_before(pricing, found)) is not None:
            return self._return(before, state)
        if use.judged >= _SHOWN:
            seen = (use.trial.matchness, use.recent.share, self.tokens)
            self._shown = Found(use.plan, found.depth, found.speed, *seen, settled=False)
        return Choice(use.plan, found.depth, use.recent.share, found.speed / pricing.plain, pricing, deepest)

    def _give_up(self, state: DraftState) -> Choice | None:
        """One that never did well makes way for the plan before it, whose drafts say whether the text has changed."""
        use, before = self.use, self.before
        if use is not None and before is not None and before.proved and use.judged < _SERVED:
            return self._return(before, state)
        self._drop()
        return None

    def _return(self, before: InUse, state: DraftState) -> Choice | None:
        self.use, self.before, self.contest = before, None, None
        self._log("returned", before.plan, self.clock(), before.trial)
        return self.choose(state)

    def _better_before(self, pricing: Pricing, found: Forecast) -> InUse | None:
        """The plan in use before, where that one's own drafts did better than those of now do: trials err."""
        before = self.before
        if before is None or not (before.proved and self.use is not None and self.use.proved):
            return None
        return before if pricing.forecast(before.plan, before.acceptance).speed > MARGIN * found.speed else None

    def observe(self, record: StepRecord, drafted: LayerPlan | None) -> None:
        """``drafted``: the plan of this row's draft, which may have been thrown away as a whole."""
        self.tokens += record.emitted
        ms = 1e3 * (record.timing.total_s - record.timing.prefill_s - record.timing.search_s)
        self.budget.ran_ms += 1e3 * record.timing.total_s
        if not record.drafted:
            self._plain_ms = 0.9 * self._plain_ms + 0.1 * ms if self._plain_ms else ms
        if self.use is not None and self.use.plan == drafted:  # not one that another thread has put aside
            self.use.observe(record.right, max(record.judged, 1))  # a draft that was lost was wrong at once

    # the search

    def work(self, state: DraftState, since: Mapping[int, int]) -> float:
        """Try one plan, if that is due and there is time for it, on text from ``since[row]`` on. Seconds it took."""
        if self._lends_at is not None and self.tokens >= self._lends_at:
            self._lends_at = None
            self.budget.lend()
        if self.network_layers < 3 or self.budget.rests or self._accelerates:
            return 0.0  # cheaply: this is asked before every step
        look = Window.newest if self.contest is None else self.contest.newest
        window = look(state, self.options.window, since)
        pricing = self._pricing(state)
        enough = len(window) >= min(self.options.window, state.limits.nodes) // 2
        if not enough or not self._affords(state, pricing, len(window)):
            return 0.0
        began = self.clock()
        if self.contest is None:
            self._try(state, window, pricing)
        else:
            self._try_again(state, window, pricing, self.contest)
        seconds = self.clock() - began
        self.budget.spend(1e3 * seconds)
        return seconds

    @property
    def _accelerates(self) -> bool:
        return self._searcher is None and self.plan is not None

    def _affords(self, state: DraftState, pricing: Pricing, nodes: int) -> bool:
        scale = 1.0 if state.costs is not None else self._plain_ms / pricing.plain  # made-up costs to milliseconds
        if scale == 0:
            return False
        since = self._improved if self.best is not None and self.best.speed > 1 else 0
        hopeless = self.contest is None and self.trials - since >= _HOPELESS
        loan = 0.0 if hopeless else scale * self.options.loan * pricing.plain
        replays = 1 if self.contest is None else 2
        return self.budget.affords(scale * replays * pricing.verify(nodes - 1), loan)

    def _try(self, state: DraftState, window: Window, pricing: Pricing) -> None:
        if self._searcher is None:
            self._open(self.trials, self.best)
            self.budget.lent_at = None  # the text is of the kind it was: no hurry
        began = self.clock()
        assert self._searcher is not None
        warm = self.warm
        plan = warm.plan if warm is not None else self._searcher.ask(self._rankings.signals(state, window, pricing))
        if plan is None:
            self._settle(began)
            return
        hits, self.warm = replay(state, window, plan), None
        tally = self.book.add(plan, hits, len(window))
        speed = self._worth(pricing, plan, tally.share)
        trial = Trial(plan, hits, len(window), speed)
        self._searcher.tell(trial)
        self.trials += 1
        self._log("trial", plan, began, trial)
        if self.best is None or speed > self.best.speed:
            self.best, self._improved = trial, self.trials
        self._judge(state, trial, tally, pricing)
        if warm is not None and warm.settled and self.plan == plan:
            self._settle(self.clock())

    def _judge(self, state: DraftState, trial: Trial, tally: Tally, pricing: Pricing) -> None:
        """Take up what was tried, if it promises more; where that may be luck, once it was tried again."""
        promise = self._promise(pricing)
        if trial.speed <= promise or self.plan == trial.plan:
            return
        if self.use is None:
            self._adopt(trial, tally.share)
            return
        known = self.book.share(self.use.plan, self.use.share)
        held = max(promise, MARGIN * self._worth(pricing, self.use.plan, known))
        if self._worth(pricing, trial.plan, tally.sure) > held:
            self._adopt(trial, tally.share)
        else:
            self.contest = Contest.begun(trial, tally.share, known, state)

    def _try_again(self, state: DraftState, window: Window, pricing: Pricing, contest: Contest) -> None:
        """Both plans once more; whoever drops the one in use has ended the contest before this."""
        assert self.use is not None
        trial, plans = contest.trial, (contest.trial.plan, self.use.plan)
        challenger, holder = (self._again(state, window, plan) for plan in plans)
        contest, self.contest = contest.after(challenger, holder, len(window), state), None
        held = MARGIN * max(self._worth(pricing, self.use.plan, contest.holder.share), 1.0)
        speed = self._worth(pricing, trial.plan, contest.challenger.share)
        if speed <= held:
            self._log("declined", trial.plan, self.clock(), trial)
            self._correct(replace(trial, speed=speed), replace(self.use.trial, speed=held / MARGIN))
        elif contest.over or self._worth(pricing, trial.plan, contest.challenger.sure) > held:
            self._adopt(trial, contest.challenger.share)
        else:
            self.contest = contest

    def _correct(self, *trials: Trial) -> None:
        """The searcher is not to go on from what was luck."""
        for trial in trials:
            if self._searcher is not None:
                self._searcher.tell(trial)

    def _worth(self, pricing: Pricing, plan: LayerPlan, share: float) -> float:
        """The speed of a plan that replays found right in ``share``: they had the whole head, drafts may have less."""
        return pricing.at(plan, share * self.coverage)

    def _again(self, state: DraftState, window: Window, plan: LayerPlan) -> int:
        began, hits = self.clock(), replay(state, window, plan)
        self.book.add(plan, hits, len(window))
        self._log("again", plan, began, Trial(plan, hits, len(window), speed=0.0))
        return hits

    def _promise(self, pricing: Pricing) -> float:
        """What a new plan must beat."""
        if self.use is None:
            return self.trust.asks(self.tokens)
        return max(pricing.forecast(self.use.plan, self.use.acceptance).speed, 1.0) * MARGIN

    def _adopt(self, trial: Trial, share: float) -> None:
        if self.use is not None and (self.before is None or self.use.proved):
            self.before = self.use
        self.use = InUse.taken_up(trial, share * self.coverage, self.tokens)
        self._log("adopted", trial.plan, self.clock(), trial)

    def _drop(self) -> None:
        """Drafts do not pay any more: what is known is of another text."""
        self._log("dropped", self.plan, self.clock())
        self._shown = None
        served = self.use is not None and self.use.judged >= _SERVED
        self.use = self.before = None
        self.drops += 1
        self.trust.broken.append(self.tokens)
        self._open()
        self.budget.lent_at, self._lends_at = None, self.tokens + self.options.window if served else None

    def _open(self, trials: int = 0, best: Trial | None = None) -> None:
        """Search anew; what was tried before counts where the text is still of its kind."""
        self.budget.rests_until = 0.0
        self.contest = None
        self.book.clear()
        self._rankings, self._searcher = Rankings(), self.new_searcher()
        self.trials, self._improved, self.best = trials, trials, best

    def _settle(self, began: float) -> None:
        self._searcher = None
        self._log("settled", self.plan, began)

    def _log(self, what: str, plan: LayerPlan | None, began: float, trial: Trial | None = None) -> None:
        figures = (0, 0, 0.0) if trial is None else (trial.hits, trial.of, trial.speed)
        self.events.append(Event(what, self.tokens, plan, *figures, 1e3 * (self.clock() - began)))

    def _pricing(self, state: DraftState) -> Pricing:
        costs, context = costs_of(state.costs, self.network_layers), max(map(len, state.history))
        kind = (self.head, self.options.deepest, self.width, self.pace.slower)
        fresh = Pricing(costs, self.network_layers, len(state.rows), context, *kind)
        return self._prices.at(fresh, self.tokens)
