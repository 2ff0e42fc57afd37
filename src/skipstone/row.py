"""One text being generated, and how a verdict on its draft turns into output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from .accept import AcceptanceRule, Nodes, NodeScores
from .drafting import Drafter
from .errors import SkipstoneError
from .request import Request
from .sampling import RowSampler, widened
from .stopping import StopReason, StopRule, first_stop
from .telemetry import StepRecord, Timing

FinishReason = StopReason | Literal["error"]


@dataclass(frozen=True, slots=True)
class Logprob:
    """The target's log-softmax before any processing: of the token, and of the best alternatives, best first."""

    token: int
    logprob: float
    top: list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one verification gives one row, before anything is changed: accepted nodes kept, tokens, the end if any."""

    path: list[int]
    tokens: list[int]
    logprobs: list[Logprob] | None = None
    finish_reason: FinishReason | None = None
    error: SkipstoneError | None = None


@dataclass(frozen=True, slots=True)
class Emission:
    """What one step gave one row. With finish_reason "error", ``error`` says why and earlier tokens are good."""

    row: int
    tokens: list[int]
    logprobs: list[Logprob] | None
    finish_reason: FinishReason | None
    record: StepRecord
    error: SkipstoneError | None


@dataclass(eq=False)
class Row:
    """``tokens`` is prompt and output, the pending token last; ``budget`` the most output request and context allow."""

    index: int
    request: Request
    drafter: Drafter
    sampler: RowSampler
    tokens: list[int]
    stops: list[StopRule]
    budget: int
    source: Row | None = None  # a sibling sample whose prefill to take over
    prefill_s: float = 0.0
    finished: bool = False

    @property
    def output(self) -> list[int]:
        return self.tokens[len(self.request.prompt) :]

    @property
    def useful_depth(self) -> int:
        """Drafted tokens that could still be emitted; the last token of a budget is always the target's own."""
        return self.budget - (len(self.tokens) - len(self.request.prompt)) - 1

    def outcome(self, nodes: Nodes, logits: Tensor, rule: AcceptanceRule) -> Outcome:
        """Judge the draft by the target's ``logits`` [N, V] and clip it by the stop rules. Changes nothing."""
        try:
            verdict = rule.judge(nodes, NodeScores(nodes, logits, self.sampler), self.sampler)
        except SkipstoneError as error:
            return Outcome([], [], finish_reason="error", error=error)
        tokens = [nodes.tokens[node] for node in verdict.path] + ([] if verdict.next is None else [verdict.next])
        stop = first_stop(self.stops, self.output, tokens)
        kept = len(tokens) if stop is None else stop.count
        logprobs = self._logprobs(logits, [0, *verdict.path][:kept], tokens[:kept])
        path = verdict.path[: max(kept - 1, 0)]
        if stop is None and verdict.error is not None:
            return Outcome(path, tokens, logprobs, "error", verdict.error)
        return Outcome(path, tokens[:kept], logprobs, stop.reason if stop else None)

    def take(self, outcome: Outcome) -> Exception | None:
        """Make an outcome's tokens part of the text. What a constraint or processor raises ends it, and is returned:
        other rows of the step have theirs to take yet.
        """
        self.tokens.extend(outcome.tokens)
        self.finished = outcome.finish_reason is not None
        try:
            self.sampler.advance(outcome.tokens)
        except Exception as error:
            self.finished = True
            return error
        return None

    def record(self, nodes: Nodes, outcome: Outcome, timing: Timing, lossy: str = "") -> StepRecord:
        """The step's figures; the prefill since the last record is charged to this one."""
        live_backbone = [node for node in nodes.topology.backbone[1:] if nodes.live[node]]
        accepted = sum(node in live_backbone for node in outcome.path)
        timing, self.prefill_s = timing + Timing(prefill_s=self.prefill_s), 0.0
        return StepRecord(
            row=self.index,
            nodes=sum(nodes.live[1:]),
            drafted=len(live_backbone),
            accepted=accepted,
            rescued=len(outcome.path) - accepted,
            emitted=len(outcome.tokens),
            timing=timing,
            lossy=lossy,
            ends=int(self._ends_drafted(nodes, outcome, live_backbone, accepted)),
        )

    def _ends_drafted(self, nodes: Nodes, outcome: Outcome, backbone: Sequence[int], accepted: int) -> bool:
        """Whether a stop rule ended the text with a token of the backbone."""
        clipped = outcome.finish_reason not in (None, "error") and len(outcome.path) == accepted < len(backbone)
        return clipped and nodes.tokens[backbone[accepted]] == outcome.tokens[-1]

    def _logprobs(self, logits: Tensor, nodes: Sequence[int], tokens: Sequence[int]) -> list[Logprob] | None:
        """Of ``tokens``, each said by its node of ``logits`` [N, V]; None where nobody asked: no copy then."""
        if self.request.logprobs is None:
            return None
        logprobs = widened(logits[nodes]).log_softmax(-1)
        best = logprobs.topk(self.request.logprobs)
        return [
            Logprob(token, float(row[token]), list(zip(ids, values, strict=True)))
            for token, row, ids, values in zip(
                tokens, logprobs, best.indices.tolist(), best.values.tolist(), strict=True
            )
        ]
