"""Drafting with whatever exit, and as many tokens, as are worth most at the moment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any

from torch import Tensor

from ..accept import Pick
from ..drafting import DraftState
from ..network import chains_only
from ..plan import LayerPlan
from ..search.exit_finder import ExitFinder
from ..search.exit_prices import Heads
from ..search.exit_sample import ExitSample
from ..search.exit_sights import ExitSights
from ..search.exit_view import ExitChoice
from ..search.pace import Expected
from ..telemetry import StepRecord
from ..tree import Draft, Feedback, Verified
from .chain import Backbone
from .head import DraftHead
from .worth import Worth

_CHOICES = 4  # at each depth, of which as many are kept as are worth it


@dataclass
class LearntExits:
    """What is known of a model's exits, for all drafters of one name and options, in all threads. Holds no network."""

    finder: ExitFinder
    lock: Any = field(default_factory=RLock)

    def told(self) -> str:
        """In one line, what is drafted with, or why nothing is."""
        return self.finder.told()


@dataclass
class DynamicExit:
    """``depth`` and ``width`` at most; 0: as pays. Rows are this drafter's own."""

    learnt: LearntExits
    head: DraftHead
    depth: int = 0
    width: int = 0
    untold: dict[int, ExitSights] = field(default_factory=dict)  # by row: whose draft has not come back yet
    expected: dict[int, Expected] = field(default_factory=dict)  # by row: what the cycle should take it

    @property
    def finder(self) -> ExitFinder:
        return self.learnt.finder

    def propose(self, state: DraftState) -> Draft:
        with self.learnt.lock:
            self.finder.heads = self._heads()
            searched = self.finder.work(state, self.head.score)
            choice = self.finder.choose(state)
            watched = self.finder.watched()
        depth = min(self.depth or self.finder.options.deepest, state.limits.depth)
        if choice is None or depth < 1:
            self.finder.pace.rest()
            seen = _Seen(self, state, watched)
            return replace(state.nothing(), search_s=searched, feedback=Feedback(seen, watched))
        if self.head.auto:
            self.head.hold(choice.prices.head is not True)
        return replace(self._draft(state, choice, depth, watched), search_s=searched)

    def _heads(self) -> Heads:
        """An auto head is the whole or a part; what the part does not know is lost where the exit would be right."""
        if not (self.head.auto and self.head.uses_costs):
            return Heads({self.head.step_head: 0.0})
        return Heads({True: 0.0, self.head.size: (1 - self.head.coverage) * self.finder.agreement})

    def _draft(self, state: DraftState, choice: ExitChoice, depth: int, watched: tuple[int, ...]) -> Draft:
        most = min(choice.prices.most, state.limits.nodes)
        worth = Worth(choice.sights, choice.prices, choice.rate, state.limits.depths, most)
        plan, early = LayerPlan.until(choice.exit), tuple(layer for layer in watched if layer < choice.exit)
        backbone = Backbone(state, plan, depth, self.head, self._width(state), worth, taps=early)
        seen = _Seen(self, state, watched, _Cycle(choice.sights, backbone, worth, backbone.picks))
        draft = backbone.resumed(backbone.draft(worth.widths()))
        self.untold |= dict.fromkeys(state.rows, choice.sights)
        if state.costs is not None:
            self.expected |= Expected.by_row(state.rows, worth.ms)
        return replace(draft, feedback=Feedback(seen, tuple(layer for layer in watched if layer > choice.exit)))

    def _width(self, state: DraftState) -> int:
        """Choices looked at for each token."""
        if not state.rule.lossless or (not self.width and chains_only(state.network)):
            return 1
        return self.width or _CHOICES

    def observe(self, record: StepRecord) -> None:
        lost, expected = self.untold.pop(record.row, None), self.expected.pop(record.row, None)
        with self.learnt.lock:
            self.finder.observe(record)
            if lost is not None:  # a draft that made numbers which are not finite was as wrong as can be
                lost.see([1.0], None)
            elif expected is not None:
                taken = 1e3 * (record.timing.draft_s + record.timing.verify_s)
                self.finder.pace.compare(taken, expected)

    def forget(self, row: int) -> None:
        """The text in ``row`` is over."""
        self.untold.pop(row, None)
        self.expected.pop(row, None)


@dataclass(frozen=True)
class _Cycle:
    """A draft on its way to verification; ``picks`` are all that were looked at, run or not."""

    sights: ExitSights
    backbone: Backbone
    worth: Worth
    picks: list[list[Pick]]


@dataclass(frozen=True)
class _Seen:
    """What a verification says of the choices that were looked at, and of other exits' streams."""

    drafter: DynamicExit
    state: DraftState
    watched: tuple[int, ...]
    cycle: _Cycle | None = None

    def __call__(self, verified: Verified) -> None:
        self.drafter.untold.pop(self.state.rows[verified.place], None)
        with self.drafter.learnt.lock:
            if self.cycle is not None:
                self._learn(self.cycle, verified)
            if self.watched and verified.said:
                self.drafter.finder.collect(self._sample(verified))

    def _learn(self, cycle: _Cycle, verified: Verified) -> None:
        """Of each choice on the backbone whose successor the target named."""
        for depth, (node, said) in enumerate(zip(verified.nodes, verified.said, strict=True)):
            if node != depth or depth >= len(cycle.picks):
                return
            tokens = cycle.picks[depth][verified.place].tokens
            right = tokens.index(said) if said in tokens else None
            cycle.sights.see(cycle.worth.probabilities[depth][verified.place], right)

    def _sample(self, verified: Verified) -> ExitSample:
        early = {} if self.cycle is None else self.cycle.backbone.streams(verified.place, verified.nodes)
        streams: dict[int, Tensor] = {**early, **verified.taps}
        first = len(self.state.history[verified.place]) - 1
        positions = range(first, first + len(verified.said))
        return ExitSample(streams, positions, verified.said, self.state.samplers[verified.place].params)
