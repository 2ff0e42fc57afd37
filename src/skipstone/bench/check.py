"""Is drafted decoding equal to plain decoding, on this model and these prompts? Every difference is looked into."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from ..accept import Follow
from ..drafting import Drafter
from ..errors import UsageError
from ..plugins import make_drafter
from ..request import Request
from ..telemetry import Sink, Summary
from ..text.language_model import LanguageModel, Prompt
from ..text.settings import GenerationSettings
from .near_tie import Best, NearTieJudge
from .recorder import ScoreRecorder
from .transformers_baseline import transformers_generate

Reference = Literal["plain", "transformers"]

# one near-tie in so many tokens is rounding, more is a fault
TOKENS_PER_NEAR_TIE = 5000
_SCRATCH = 64
_MOST_PER_SEQUENCE = 20


@dataclass(frozen=True)
class CheckSpec:
    """What to compare: ``drafter`` against Skipstone's plain decoding or transformers' greedy ``generate``."""

    drafter: str = "ngram"
    against: Reference = "plain"
    settings: GenerationSettings = field(default_factory=GenerationSettings)

    def __post_init__(self) -> None:
        if self.against not in ("plain", "transformers"):
            raise UsageError(f"cannot check against {self.against!r}: use plain or transformers")


@dataclass(frozen=True)
class Difference:
    """A place where the arms part, ``position`` counted in output tokens. A missing token (an end) is -1.

    Behind it the drafted arm goes on from the reference's token, so a text may have several.
    """

    sequence: int
    position: int
    expected: int
    got: int
    expected_text: str
    got_text: str
    gap: float
    error: float
    near_tie: bool


@dataclass
class CheckReport:
    """Figures of one check. ``differences`` holds what is not a near-tie; ``near_ties`` the rest.

    ``drafted`` counts drafted tokens: without any, plain decoding was compared with itself.
    """

    model: str
    drafter: str
    against: str
    dtype: str
    weights: str
    sequences: int = 0
    tokens: int = 0
    drafted: int = 0
    differences: list[Difference] = field(default_factory=list)
    near_ties: list[Difference] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """No difference but near-ties, and of these no more than are allowed."""
        return not self.differences and len(self.near_ties) <= self.near_ties_allowed

    @property
    def near_ties_allowed(self) -> int:
        """One in 5,000 tokens, and one in a shorter check."""
        return math.ceil(self.tokens / TOKENS_PER_NEAR_TIE)

    def to_json(self) -> dict[str, Any]:
        counts = {"differences": len(self.differences), "near_ties": len(self.near_ties), "equal": self.equal}
        details = [asdict(d) for d in [*self.differences, *self.near_ties]]
        return {**asdict(self), **counts, "details": details}


def run_check(
    model: LanguageModel,
    prompts: Sequence[Prompt],
    spec: CheckSpec,
    progress: Callable[[CheckReport], None],
    references: References | None = None,
) -> CheckReport:
    """Check every prompt; ``progress`` sees the report after each.

    ``references`` of an earlier check of the same prompts and settings save decoding them again. Raises UsageError and
    RequestError.
    """
    dtype = str(model.network.dtype).removeprefix("torch.")
    report = CheckReport(model.name, spec.drafter, spec.against, dtype, model.loaded.network.weights)
    settings = replace(spec.settings, seed=spec.settings.seed or 0)
    requests = [model.request(prompt, settings) for prompt in prompts]
    for request in requests:
        request.check(model.network.vocab_size, model.network.context)
    drafter = model.make(spec.drafter)
    comparison = Comparison(model, drafter, references or References(model, spec.against))
    for index, request in enumerate(requests):
        comparison.add(report, index, request)
        progress(report)
    return report


Decoded = tuple[list[int], list[Best]]  # output tokens, and the best scores each was chosen from


class References:
    """What the drafted texts are compared with, decoded once each."""

    def __init__(self, model: LanguageModel, against: Reference) -> None:
        """Raises UsageError for a lossy model: what is checked is whether texts are those of the whole model."""
        if model.lossy:
            raise UsageError(
                f"{model.name} speaks other texts than the whole model: compare it loaded without early_exit"
            )
        self.model = model
        self.against = against
        self._texts: dict[int, Decoded] = {}

    @cached_property
    def theirs(self) -> Any:
        """The transformers model on the same weights."""
        return self.model.loaded.transformers_model()

    def of(self, sequence: int, request: Request) -> Decoded:
        if sequence not in self._texts:
            self._texts[sequence] = self._decode(request)
        return self._texts[sequence]

    def _decode(self, request: Request) -> Decoded:
        if self.against == "transformers":
            text = transformers_generate(self.theirs, request, scores=True)
            return text.tokens, text.best
        return decode(self.model, request, make_drafter("none", self.model.network))


class Comparison:
    """Two ways to decode one model, compared text by text."""

    def __init__(self, model: LanguageModel, drafter: Drafter, references: References) -> None:
        self.model = model
        self.drafter = drafter
        self.references = references
        self.judge = NearTieJudge(model.loaded.network)
        self.summary = Summary()

    def add(self, report: CheckReport, sequence: int, request: Request) -> None:
        """Decode both ways; at a difference go on from the reference's token."""
        expected, expected_best = self.references.of(sequence, request)
        report.sequences += 1
        report.tokens += len(expected)
        forced = 0  # output tokens taken over from the reference
        for _ in range(_MOST_PER_SEQUENCE):
            got, best = decode(self.model, replace(request, generated=expected[:forced]), self.drafter, [self.summary])
            report.drafted = self.summary.drafted
            position = first_difference(expected, got)
            if position is None:
                return
            arms = (_at(expected_best, position), _at(best, position - forced))
            self._report(report, sequence, request, (expected, got), position, arms)
            forced = position + 1
            if forced >= len(expected):
                return

    def _report(
        self,
        report: CheckReport,
        sequence: int,
        request: Request,
        outputs: tuple[list[int], list[int]],
        position: int,
        arms: tuple[Best, Best],
    ) -> None:
        expected, got = (output[position] if position < len(output) else -1 for output in outputs)
        gap = error = math.inf
        near_tie = False
        if expected >= 0 and got >= 0:
            judgement = self.judge.judge(request, outputs[0][:position], (expected, got), arms)
            gap, error, near_tie = judgement.gap, judgement.error, judgement.near_tie
        texts = [self.model.tokenizer.decode([token]) if token >= 0 else "(end)" for token in (expected, got)]
        found = Difference(sequence, position, expected, got, texts[0], texts[1], gap, error, near_tie)
        (report.near_ties if near_tie else report.differences).append(found)


def decode(model: LanguageModel, request: Request, drafter: Drafter, sinks: Sequence[Sink] = ()) -> Decoded:
    """Decode one request; the scores begin after ``request.generated``. Raises what the engine reports."""
    recorder = ScoreRecorder(Follow())
    capacity = min(len(request.prompt) + request.max_new_tokens, model.network.context) + _SCRATCH
    engine = model.engine(capacity=capacity, drafter=drafter, rule=recorder, sinks=sinks)
    row = engine.admit(request)[0]
    tokens = list(request.generated)
    try:
        while engine.busy:
            for emission in engine.step():
                if emission.error is not None:
                    raise emission.error
                tokens.extend(emission.tokens)
    finally:
        engine.release(row)
    return tokens, recorder.best


def only_near_ties(model: LanguageModel, spec: str, request: Request) -> bool:
    """Whether near-ties are all that parts a drafted text from the plain one. Decodes both anew."""
    references = References(model, "plain")
    report = CheckReport(model.name, spec, references.against, "", model.loaded.network.weights)
    Comparison(model, model.make(spec), references).add(report, 0, request)
    return bool(report.near_ties) and not report.differences


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """The first index where two token lists part, None where they are equal."""
    for index, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return index
    return None if len(a) == len(b) else min(len(a), len(b))


def _at(best: list[Best], index: int) -> Best:
    return best[index] if 0 <= index < len(best) else {}
