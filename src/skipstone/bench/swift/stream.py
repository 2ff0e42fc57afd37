"""Texts decoded one after another by one drafter, whose search goes on from text to text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...cost import CostModel
from ...drafting import Drafter
from ...engine import Engine
from ...network import Network
from ...request import Request
from ...stopping import StopRule
from ...telemetry import StepRecord
from ..timing import Clock

_SCRATCH = 64


@dataclass
class Told:
    """What one text was, step by step: the first step, which has the prefill, is left out of ``steps``."""

    tokens: list[int] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    seconds: float = 0.0
    emitted: int = 0  # in these seconds

    @property
    def per_token(self) -> float:
        return self.seconds / max(self.emitted, 1)

    @property
    def recorded(self) -> float:
        """Seconds a token by the records' own timing."""
        timed = sum(step.timing.total_s - step.timing.prefill_s for step in self.steps)
        return timed / max(self.emitted, 1)


@dataclass
class Stream:
    """``network`` may be exchanged between texts; drafter and costs stay."""

    network: Network
    drafter: Drafter
    costs: CostModel | None
    clock: Clock

    def decode(
        self,
        prompt: Sequence[int],
        new_tokens: int,
        each: Callable[[int], None] | None = None,
        stops: Sequence[StopRule] = (),
    ) -> Told:
        """One text to its full length, or to a stop; ``each`` is told after every step how many tokens it gave."""
        engine = Engine(self.network, self.drafter, capacity=len(prompt) + new_tokens + _SCRATCH, costs=self.costs)
        [row] = engine.admit(Request(list(prompt), new_tokens, stops=stops))
        told, began = Told(), 0.0
        while engine.busy:
            for emission in engine.step():
                if emission.error is not None:
                    raise emission.error
                told.tokens += emission.tokens
                if began:
                    told.steps.append(emission.record)
                    told.emitted += len(emission.tokens)
                if each is not None:
                    each(len(emission.tokens))
            began = began or (self.clock() if told.tokens else 0.0)
        told.seconds = self.clock() - began
        engine.release(row)
        return told
