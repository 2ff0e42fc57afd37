"""Drafting with whatever exit, and as many tokens, as are worth most at the moment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any

from torch import Tensor

from ..accept import Pick
from ..drafting import DraftState
from ..plan import LayerPlan
from ..search.exit_finder import ExitChoice, ExitFinder
from ..search.exit_prices import Heads
from ..search.exit_sample import ExitSample
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
    """``depth`` and ``width`` at most; 0: as pays."""

    learnt: LearntExits
    head: DraftHead
    depth: int = 0
    width: int = 0

    @property
    def finder(self) -> ExitFinder:
        return self.learnt.finder

    def propose(self, state: DraftState) -> Draft:
        with self.learnt.lock:
            self.finder.heads = self._heads()
            searched = self.finder.work(state, self.head.score)
            choice = self.finder.choose(state)
            if choice is not None and self.head.auto:
                self.head.hold(choice.prices.head is not True)
            watched = self.finder.watched()
        depth = min(self.depth or self.finder.options.deepest, state.limits.depth)
        if choice is None or depth < 1:
            seen = _Seen(self.learnt, state, watched)
            return replace(state.nothing(), search_s=searched, feedback=Feedback(seen, watched))
        return replace(self._draft(state, choice, depth, watched), search_s=searched)

    def _heads(self) -> Heads:
        """An auto head is the whole or a part; what the part does not know is lost where the exit would be right."""
        if not (self.head.auto and self.head.uses_costs):
            return Heads({self.head.step_head: 0.0})
        return Heads({True: 0.0, self.head.size: (1 - self.head.coverage) * self.finder.agreement})

    def _draft(self, state: DraftState, choice: ExitChoice, depth: int, watched: tuple[int, ...]) -> Draft:
        most = min(choice.prices.most, state.limits.nodes)
        width = (self.width or _CHOICES) if state.rule.lossless else 1
        worth = Worth(choice.sights, choice.prices, choice.rate, len(state.rows), most)
        plan, early = LayerPlan.until(choice.exit), tuple(layer for layer in watched if layer < choice.exit)
        backbone = Backbone(state, plan, depth, self.head, width, worth, taps=early)
        seen = _Seen(self.learnt, state, watched, choice, backbone, worth, picks=backbone.picks)
        draft = backbone.resumed(backbone.draft(worth.widths()))
        return replace(draft, feedback=Feedback(seen, tuple(layer for layer in watched if layer > choice.exit)))

    def observe(self, record: StepRecord) -> None:
        with self.learnt.lock:
            self.finder.observe(record)


@dataclass(frozen=True)
class _Seen:
    """What a verification says of the choices that were looked at, run or not, and of other exits' streams."""

    learnt: LearntExits
    state: DraftState
    watched: tuple[int, ...]
    choice: ExitChoice | None = None
    backbone: Backbone | None = None
    worth: Worth | None = None
    picks: list[list[Pick]] = field(default_factory=list)

    def __call__(self, verified: Verified) -> None:
        with self.learnt.lock:
            self._learn(verified)
            if self.watched and verified.said:
                self.learnt.finder.collect(self._sample(verified))

    def _learn(self, verified: Verified) -> None:
        """Of each choice on the backbone whose successor the target named."""
        if self.choice is None or self.worth is None:
            return
        for depth, (node, said) in enumerate(zip(verified.nodes, verified.said, strict=True)):
            if node != depth or depth >= len(self.picks):
                return
            tokens = self.picks[depth][verified.place].tokens
            right = tokens.index(said) if said in tokens else None
            self.choice.sights.see(self.worth.probabilities[depth][verified.place], right)

    def _sample(self, verified: Verified) -> ExitSample:
        early = {} if self.backbone is None else self.backbone.streams(verified.place, verified.nodes)
        streams: dict[int, Tensor] = {**early, **verified.taps}
        first = len(self.state.history[verified.place]) - 1
        positions = range(first, first + len(verified.said))
        return ExitSample(streams, positions, verified.said, self.state.samplers[verified.place])
