"""Drafting with whatever plan the tuner holds best at the moment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any

from ..drafting import DraftState
from ..search.calibration import Calibration
from ..search.choice import Choice
from ..search.pace import Expected
from ..search.tuner import Tuner
from ..telemetry import StepRecord
from ..tree import Draft
from .chain import Backbone, room_for_depth
from .confidence import WhileItPays
from .head import DraftHead


@dataclass
class Learnt:
    """What a search knows, for all drafters of one name and options, in all threads. It holds no network."""

    tuner: Tuner
    calibration: Calibration = field(default_factory=Calibration)
    lock: Any = field(default_factory=RLock)

    def told(self) -> str:
        """In one line, what is drafted with, or why nothing is."""
        return self.tuner.told()


@dataclass
class Tuned:
    """A trial where one is due, then a draft by the tuner's choice, as long as its tokens are sure enough to pay.

    Rows are this drafter's own: others that share ``learnt`` number theirs alike.
    """

    learnt: Learnt
    head: DraftHead
    drafted: dict[int, list[float]] = field(default_factory=dict)  # row -> confidences of its newest draft
    expected: dict[int, Expected] = field(default_factory=dict)  # row -> what the cycle should take it
    since: dict[int, int] = field(default_factory=dict)  # row -> where the text begins that a plan may be tried on
    drops: int = 0  # of plans, that these rows have been marked for

    def __post_init__(self) -> None:
        self.drops = self.tuner.drops

    @property
    def tuner(self) -> Tuner:
        return self.learnt.tuner

    def propose(self, state: DraftState, most: int, width: int) -> Draft:
        with self.learnt.lock:
            self.tuner.head, self.tuner.width = self.head.step_head, width
            self._mark(state)
            searched = self.tuner.work(state, self.since)
            choice = self.tuner.choose(state)
            if choice is None:
                self.tuner.pace.rest()
        draft = state.nothing() if choice is None else self._draft(state, choice, most, width)
        return replace(draft, search_s=searched)

    def _mark(self, state: DraftState) -> None:
        """After a plan was dropped, text from before says nothing of what pays now."""
        if self.drops != self.tuner.drops:
            self.drops = self.tuner.drops
            self.since = {row: len(history) for row, history in zip(state.rows, state.history, strict=True)}

    def _draft(self, state: DraftState, choice: Choice, most: int, width: int) -> Draft:
        depth = room_for_depth(state, min(most or 2 * choice.depth, self.tuner.options.deepest), width)
        if depth == 0:
            return state.nothing()
        pays = (choice.acceptance, choice.more, choice.rate)
        enough = WhileItPays(self.learnt.calibration, len(state.rows), *pays)
        backbone = Backbone(state, choice.plan, depth, self.head, width, enough)
        useful = zip(state.rows, enough.confidences, state.limits.depths, strict=True)
        self.drafted |= {row: confidences for row, confidences, room in useful if room > 0}
        if state.costs is not None:
            self.expected |= Expected.by_row(state.rows, choice.pricing.cycle(choice.plan, len(backbone.picks)))
        return backbone.draft()

    def observe(self, record: StepRecord) -> None:
        confidences, expected = self.drafted.pop(record.row, []), self.expected.pop(record.row, None)
        with self.learnt.lock:
            self.tuner.observe(record, lost=bool(confidences) and not record.drafted)
            if expected is not None and record.drafted:
                self.tuner.pace.compare(1e3 * (record.timing.draft_s + record.timing.verify_s), expected)
            self.learnt.calibration.observe(confidences[: record.judged], record.right)

    def forget(self, row: int) -> None:
        """The text in ``row`` is over, or another one begins."""
        self.since.pop(row, None)
        self.drafted.pop(row, None)
        self.expected.pop(row, None)
