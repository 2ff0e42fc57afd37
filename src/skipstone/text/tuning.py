"""A search for a plan now, on given prompts, rather than on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..draft.skip import SkipDrafter
from ..errors import PlanError, RequestError
from ..search.found import Found, Warm
from ..search.searcher import Trial
from ..search.tuner import Tuner
from .language_model import LanguageModel
from .prompt import Prompt

_CONFIRMS = 3  # texts on which a plan is to serve, after the one that it was settled on in


@dataclass
class Tuning:
    """Texts of ``tokens`` tokens are generated, with a trial at every step that has text enough.

    ``found`` is the newest plan that paid, also where a later text turned out to be of another kind; but one found on a
    text, and dropped on the next, was luck. ``best`` is the best trial, whether it paid or not.

    Raises PlanError for a model too shallow to skip anything.
    """

    model: LanguageModel
    task: str = ""
    tokens: int = 128
    found: Found | None = None
    best: Trial | None = None
    trials: int = 0
    drafter: SkipDrafter = field(init=False)
    _served: int = 0  # texts to whose end it was drafted with the plan found
    _drops: int = 0

    def __post_init__(self) -> None:
        network = self.model.network
        if network.num_layers < 3:
            raise PlanError(f"{self.model.name} has {network.num_layers} layers, and none between its first and last")
        if self.tokens < 1:
            raise RequestError(f"texts of {self.tokens} tokens show nothing: use 1 or more")
        options = SkipDrafter.Options(task=self.task, budget=1.0, keep=False)
        self.drafter = SkipDrafter(options, network)
        kept = None if self.model.plans is None else self.model.plans.get(self.task)
        if kept is not None:
            self.drafter.begin_with(Warm(kept.plan))  # and then look for a better one

    @property
    def tuner(self) -> Tuner:
        assert self.drafter.tuned is not None
        return self.drafter.tuned.tuner

    @property
    def settled(self) -> bool:
        """Nothing is left to try."""
        return not self.tuner.searching

    def run(self, prompts: Sequence[Prompt]) -> Iterator[int]:
        """Generates until the search has settled on nothing, or on a plan that then served for some texts more, or the
        prompts end; after each step, how many prompts are done.
        """
        for done, prompt in enumerate(prompts):
            for _ in self.model.stream(prompt, drafter=self.drafter, max_new_tokens=self.tokens, seed=0):
                self._look()
                yield done
                if self.settled and self.tuner.plan is None:
                    return
            self._served += self._shown
            yield done + 1
            if self.settled and self._served > _CONFIRMS:
                return

    @property
    def _shown(self) -> bool:
        """Whether the plan in use has been found worth keeping by its own drafts."""
        return self.found is not None and self.found.plan == self.tuner.plan

    def _look(self) -> None:
        shown, drops = self.tuner.found, self.tuner.drops
        if shown is not None and (self.found is None or shown.plan != self.found.plan):
            self._served = 0
        if shown is None and drops > self._drops and self._served <= 1:
            self.found = None
        self._drops = drops
        self.found = shown or self.found
        self.trials = sum(event.what == "trial" for event in self.tuner.events)
        best = self.tuner.best
        if best is not None and (self.best is None or best.speed > self.best.speed):
            self.best = best
