"""The idle layers move in the middle of a stream: how soon the drafter notices, and how soon it is fast again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from ...draft.none import NoDrafter
from ...draft.skip import SkipDrafter
from ...hf.prepare import prepare
from ...plan import LayerPlan
from ...telemetry import StepRecord
from ..efficiency.lab import Lab
from ..efficiency.part import Absent, Figure, Findings, Part
from ..efficiency.planted_skip import grown
from ..planted import moved
from . import differences
from .planted import KIND, Planted, tuner_of
from .stream import Stream, Told

_SEED = 11
_RECOVERED = 0.85  # of the new best plan's predicted speed
_TEXTS = 8
_AS_FAST = 0.95  # of plain decoding's speed
_SPAN = 16  # tokens that a speed is taken over


def part() -> Part:
    figures = (
        Figure("recovery_plain_tokens", "tokens until no more is drafted by the old plan", "≤ 30"),
        Figure("recovery_best_tokens", "tokens until a plan worth 85 % of the new best is in use", "≤ 600"),
        differences.figure("shift"),
    )
    return Part("shift", figures, run)


def run(lab: Lab) -> Findings:
    planted = Planted.made(lab)
    drafter = SkipDrafter(SkipDrafter.Options(), planted.network)
    before = Beside(planted, drafter, lab)
    for number in range(_TEXTS):
        before.decode(number)
        if not tuner_of(drafter).searching:
            break
    model = moved(grown(lab)[0], _SEED)
    planted = replace(planted, model=model, network=prepare(model.model, KIND).network)
    after, watch = Beside(planted, drafter, lab), Watch(planted, tuner_of(drafter).plan, drafter)
    for number in range(_TEXTS):
        after.decode(number, watch)
        if watch.best is not None and after.fast_again is not None:
            break
    lab.tell(
        f"  old plan gone after {watch.plain} tokens, plain decoding's speed back after {after.fast_again}, "
        f"a good new plan after {watch.best}"
    )
    return {
        "recovery_plain_tokens": _known(watch.plain, "the old plan was never dropped"),
        "recovery_best_tokens": _known(watch.best, "no good plan was found again"),
        differences.key("shift"): before.differing + after.differing,
        "recovery_plain_speed_tokens": _known(after.fast_again, f"never {_AS_FAST:.0%} of plain decoding's speed"),
    }


def _known(tokens: int | None, otherwise: str) -> int | Absent:
    return Absent(otherwise) if tokens is None else tokens


@dataclass
class Beside:
    """Texts by a drafter whose search goes on, each of them decoded plainly as well."""

    planted: Planted
    drafter: SkipDrafter
    lab: Lab
    drafted: list[Told] = field(default_factory=list)
    plain: list[Told] = field(default_factory=list)

    def decode(self, number: int, each: Callable[[int], None] | None = None) -> None:
        network, prompts = self.planted.network, self.planted.prompts
        prompt, tokens = prompts[number % len(prompts)], self.lab.effort.answer
        drafting = Stream(network, self.drafter, self.planted.costs, self.lab.clock)
        plain = Stream(network, NoDrafter(NoDrafter.Options(), network), None, self.lab.clock)
        self.drafted.append(drafting.decode(prompt, tokens, each))
        self.plain.append(plain.decode(prompt, tokens))

    @property
    def differing(self) -> int:
        return differences.differing(self.plain, self.drafted)

    @property
    def fast_again(self) -> int | None:
        """Tokens until drafting is as fast as plain decoding."""
        return tokens_until(self.drafted, median(text.recorded for text in self.plain) / _AS_FAST)


def tokens_until(texts: Sequence[Told], per_token: float) -> int | None:
    """Tokens of ``texts`` until the last ``_SPAN`` of them took at most so many seconds each, by the steps' records.

    The first step of each text, which has its prefill, counts for its tokens alone. None: not in these texts.
    """
    emitted, span = 0, deque[StepRecord]()
    for text in texts:
        emitted += len(text.tokens) - text.emitted
        for step in text.steps:
            emitted += step.emitted
            span.append(step)
            while sum(each.emitted for each in span) - span[0].emitted >= _SPAN:
                span.popleft()
            tokens = sum(each.emitted for each in span)
            took = sum(each.timing.total_s - each.timing.prefill_s for each in span)
            if tokens >= _SPAN and took <= tokens * per_token:
                return emitted
    return None


@dataclass
class Watch:
    """Looks after every step at what the tuner holds, and counts tokens since the shift."""

    planted: Planted
    old: LayerPlan | None
    drafter: SkipDrafter
    emitted: int = 0
    plain: int | None = None
    best: int | None = None

    def __call__(self, emitted: int) -> None:
        self.emitted += emitted
        tuner = tuner_of(self.drafter)
        if tuner.plan != self.old and self.plain is None:
            self.plain = self.emitted
        if tuner.plan not in (None, self.old) and self.best is None:
            tally = tuner.book.tallies.get(tuner.plan)
            if tally is not None and self.planted.worth(tuner.plan, tally.share) >= _RECOVERED:
                self.best = self.emitted
