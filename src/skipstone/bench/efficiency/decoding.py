"""One text decoded on the clock, by our engine or by transformers: to its full length, or where a user's would end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...cost import CostModel
from ...engine import Engine
from ...errors import UsageError
from ...hf.quiet import quiet
from ...network import Network
from ...plugins import make_drafter
from ...request import Request
from ...sampling import SamplingParams
from ...stopping import StopRule
from ...telemetry import Summary
from ..timing import Clock
from ..transformers_baseline import transformers_generate

_SCRATCH = 64


@dataclass(frozen=True)
class Job:
    """``new_tokens`` after ``prompt``; nothing ends the text before unless there are ``stops``."""

    prompt: Sequence[int]
    new_tokens: int
    sampling: SamplingParams = field(default_factory=SamplingParams)
    stops: Sequence[StopRule] = ()

    @property
    def request(self) -> Request:
        return Request(self.prompt, self.new_tokens, self.sampling, self.stops)


@dataclass(frozen=True)
class Decoded:
    """``seconds`` from prompt to last token; ``steady`` and ``summary`` leave out the first step with its prefill."""

    tokens: list[int]
    seconds: float
    steady_s: float
    steady_tokens: int
    summary: Summary

    @property
    def per_token(self) -> float:
        """Seconds a token, once the prompt is in; of a text of one token, nothing."""
        return self.steady_s / max(self.steady_tokens, 1)

    @property
    def per_step(self) -> float:
        """Seconds a verification, with the draft before it."""
        return self.steady_s / self.summary.steps


def decode(network: Network, drafter: str, job: Job, clock: Clock, costs: CostModel | None = None) -> Decoded:
    """Decode one text. Raises UsageError for a drafter that does not exist or does not fit."""
    engine, summary = started(network, drafter, job, costs), Summary()
    began = clock()
    first: list[int] = []
    while engine.busy and not first:
        first = step(engine)
    prefilled = clock()
    engine.sinks.append(summary)
    rest: list[int] = []
    while engine.busy:
        rest += step(engine)
    ended = clock()
    _check_length(len(first) + len(rest), job, "the engine")
    return Decoded(first + rest, ended - began, ended - prefilled, len(rest), summary)


def started(network: Network, drafter: str, job: Job, costs: CostModel | None = None) -> Engine:
    """An engine with the text in its one row. Raises UsageError for a drafter that does not exist or does not fit."""
    capacity = len(job.prompt) + job.new_tokens + _SCRATCH
    engine = Engine(network, make_drafter(drafter, network), capacity=capacity, costs=costs)
    engine.admit(job.request)
    return engine


def step(engine: Engine) -> list[int]:
    """The tokens of a step."""
    tokens: list[int] = []
    for emission in engine.step():
        if emission.error is not None:
            raise emission.error
        tokens += emission.tokens
    return tokens


def theirs(model: Any, job: Job, clock: Clock, **more: Any) -> float:
    """Seconds from prompt to last token of transformers' ``generate``; ``more`` goes to it as it is."""
    with quiet():
        began = clock()
        text = transformers_generate(model, job.request, **more)
        spent = clock() - began
    _check_length(len(text.tokens), job, "transformers")
    return spent


def _check_length(tokens: int, job: Job, who: str) -> None:
    if tokens != job.new_tokens and not job.stops:
        raise UsageError(
            f"{who} gave {tokens} of {job.new_tokens} tokens: arms cannot be compared; use a model with more context"
        )
