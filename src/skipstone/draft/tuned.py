"""Drafting with whatever plan the tuner holds best at the moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import RLock
from typing import Any

from ..accept import Pick
from ..drafting import DraftState
from ..network import chains_only
from ..plan import LayerPlan
from ..search.calibration import Calibration, by_halves
from ..search.choice import Choice
from ..search.found import Found
from ..search.pace import Expected
from ..search.report import SearchReport
from ..search.tuner import Tuner
from ..telemetry import StepRecord
from ..tree import Draft, Feedback, Verified
from .chain import Backbone, room_for_depth
from .confidence import WhileItPays
from .head import DraftHead
from .siblings import Siblings


@dataclass
class Learnt:
    """What a search knows, for all drafters of one name and options, in all threads. It holds no network."""

    tuner: Tuner
    calibration: Calibration = field(default_factory=Calibration)
    others: Calibration = field(default_factory=lambda: Calibration(by_halves))  # choices behind a drafted token
    lock: Any = field(default_factory=RLock)

    def told(self) -> str:
        """In one line, what is drafted with, or why nothing is."""
        with self.lock:
            return self.tuner.told()

    def report(self) -> SearchReport:
        """All that happened, candidate by candidate."""
        with self.lock:
            return self.tuner.report()

    @property
    def found(self) -> Found | None:
        """The plan that the search has found, where it has."""
        with self.lock:
            return self.tuner.found


@dataclass(frozen=True, slots=True)
class Drafted:
    """A row's newest draft: its plan, how sure its tokens were, and what the cycle should take."""

    plan: LayerPlan
    confidences: list[float]
    expected: Expected | None


@dataclass
class Tuned:
    """A trial where one is due, then a draft by the tuner's choice, as long as its tokens are sure enough to pay.

    ``width`` choices of each token are kept; 0: those that are worth verifying. Rows are this drafter's own: others
    that share ``learnt`` number theirs alike.
    """

    learnt: Learnt
    head: DraftHead
    drafted: dict[int, Drafted] = field(default_factory=dict)  # by row
    since: dict[int, int] = field(default_factory=dict)  # row -> where the text begins that a plan may be tried on
    drops: int = 0  # of plans, that these rows have been marked for

    def __post_init__(self) -> None:
        self.drops = self.tuner.drops

    @property
    def tuner(self) -> Tuner:
        return self.learnt.tuner

    def propose(self, state: DraftState, most: int, width: int) -> Draft:
        with self.learnt.lock:
            choice, searched = self._search(state, width)
        draft = state.nothing() if choice is None else self._draft(state, choice, most, width)
        return replace(draft, search_s=searched)

    def _search(self, state: DraftState, width: int) -> tuple[Choice | None, float]:
        """What to draft with, and the seconds that trials and bookkeeping took."""
        tuner, began = self.tuner, self.tuner.clock()
        tuner.head, tuner.width = self.head.step_head, max(width, 1)
        tuner.coverage = self.head.coverage if self.head.narrow else 1.0
        self._mark(state)
        tried = tuner.work(state, self.since)
        choice = tuner.choose(state)
        if choice is None:
            tuner.pace.rest()
        searched = tuner.clock() - began
        tuner.budget.kept_ms += 1e3 * max(searched - tried, 0.0)
        return choice, searched

    def _mark(self, state: DraftState) -> None:
        """After a plan was dropped, text from before says nothing of what pays now."""
        if self.drops != self.tuner.drops:
            self.drops = self.tuner.drops
            self.since = {row: len(history) for row, history in zip(state.rows, state.history, strict=True)}

    def _draft(self, state: DraftState, choice: Choice, most: int, width: int) -> Draft:
        depth = room_for_depth(state, min(most or 2 * choice.depth, choice.deepest), max(width, 1))
        if depth == 0:
            return state.nothing()
        pays = (choice.acceptance, choice.more, choice.rate)
        enough = WhileItPays(self.learnt.calibration, len(state.rows), *pays)
        backbone = Backbone(state, choice.plan, depth, self.head, max(width, 1), enough)
        alone = width or not state.rule.lossless or chains_only(state.network)
        draft = backbone.draft() if alone else self._with_siblings(backbone, choice, enough.reach)
        self._remember(state, choice, enough.confidences, draft)
        return draft

    def _with_siblings(self, backbone: Backbone, choice: Choice, reach: Sequence[Sequence[float]]) -> Draft:
        """The backbone, and what is worth verifying beside it."""
        state, nodes = backbone.state, 1 + len(backbone.picks)
        price = partial(_in_tokens, choice, nodes)
        siblings = Siblings(self.learnt.others, price, partial(_choices, state))
        useful = [
            [chance * (depth <= room) for chance, room in zip(row, state.limits.depths, strict=True)]
            for depth, row in enumerate(reach[: nodes - 1], 1)
        ]
        draft = backbone.draft(siblings.widths(backbone.picks, useful, state.limits.nodes - nodes))
        return replace(draft, feedback=Feedback(partial(self._learn, siblings)) if siblings.looked else None)

    def _learn(self, siblings: Siblings, verified: Verified) -> None:
        with self.learnt.lock:
            siblings.learn(verified)

    def _remember(self, state: DraftState, choice: Choice, confidences: list[list[float]], draft: Draft) -> None:
        """What each row's draft was, until its verification is known."""
        pricing, depth = choice.pricing, len(confidences[0])
        cycle = depth * pricing.draft(choice.plan) + pricing.verify_nodes(len(draft.topology))
        expected = {} if state.costs is None else Expected.by_row(state.rows, cycle)
        for row, sure, room in zip(state.rows, confidences, state.limits.depths, strict=True):
            if room > 0:
                self.drafted[row] = Drafted(choice.plan, sure, expected.get(row))

    def observe(self, record: StepRecord) -> None:
        drafted = self.drafted.pop(record.row, None)
        with self.learnt.lock:
            self.tuner.observe(record, None if drafted is None else drafted.plan)
            if drafted is None:
                return
            if drafted.expected is not None and record.drafted:
                self.tuner.pace.compare(1e3 * (record.timing.draft_s + record.timing.verify_s), drafted.expected)
            self.learnt.calibration.observe(drafted.confidences[: record.judged], record.right)

    def forget(self, row: int) -> None:
        """The text in ``row`` is over, or another one begins."""
        self.since.pop(row, None)
        self.drafted.pop(row, None)


def _in_tokens(choice: Choice, nodes: int, siblings: int) -> float:
    """What so many choices beside ``nodes`` cost: the tokens that drafting as usual brings in that time."""
    return choice.rate * choice.beside(nodes, siblings)


def _choices(state: DraftState, pick: Pick, place: int, depth: int, width: int) -> Pick:
    """``width`` choices in place of the one that was picked, by the same scores and noise."""
    return state.rule.pick(pick.scores, state.samplers[place], depth, width)
