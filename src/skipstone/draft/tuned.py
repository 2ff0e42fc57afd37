"""Drafting with whatever plan the tuner holds best at the moment."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..drafting import DraftState
from ..search.pricing import Pricing, costs_of
from ..search.tuner import Choice, Tuner
from ..telemetry import StepRecord
from ..tree import Draft
from .chain import Backbone, room_for_depth
from .confidence import Calibration, WhileItPays
from .head import DraftHead


@dataclass
class Tuned:
    """A trial where one is due, then a draft by the tuner's choice, as long as its tokens are sure enough to pay."""

    tuner: Tuner
    head: DraftHead
    calibration: Calibration = field(default_factory=Calibration)

    def told(self) -> str:
        """In one line, what is drafted with, or why nothing is."""
        return self.tuner.told()

    def propose(self, state: DraftState, most: int, width: int) -> Draft:
        self.tuner.head = self.head.step_head
        searched = self.tuner.work(state)
        choice = self.tuner.choose(state)
        draft = state.nothing() if choice is None else self._draft(state, choice, most, width)
        return Draft(draft.topology, draft.tokens, draft.live, probs=draft.probs, search_s=searched)

    def _draft(self, state: DraftState, choice: Choice, most: int, width: int) -> Draft:
        depth = room_for_depth(state, min(most or 2 * choice.depth, self.tuner.options.deepest), width)
        if depth == 0:
            return state.nothing()
        enough = self._while_it_pays(state, choice)
        backbone = Backbone(state, choice.plan, depth, self.head, width, enough)
        enough.done()
        return backbone.draft()

    def _while_it_pays(self, state: DraftState, choice: Choice) -> WhileItPays:
        layers, context = state.network.num_layers, max(map(len, state.history))
        pricing = Pricing(costs_of(state.costs, layers), layers, len(state.rows), context, self.head.step_head)
        more = pricing.draft(choice.plan) + pricing.verify(choice.depth) - pricing.verify(choice.depth - 1)
        return WhileItPays(self.calibration, state.rows, choice.acceptance, more, choice.rate)

    def observe(self, record: StepRecord) -> None:
        self.tuner.observe(record)
        self.calibration.observe(record)

    def release(self, row: int) -> None:
        self.tuner.release(row)
        self.calibration.release(row)
