"""The idle layers move in the middle of a stream: how soon the drafter notices, and how soon it is fast again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...draft.skip import SkipDrafter
from ...hf.prepare import prepare
from ...plan import LayerPlan
from ..efficiency.lab import Lab
from ..efficiency.part import Absent, Figure, Findings, Part
from ..efficiency.planted_skip import grown
from ..planted import moved
from .planted import KIND, Planted, tuner_of
from .stream import Stream

_SEED = 11
_RECOVERED = 0.85  # of the new best plan's predicted speed
_TEXTS = 8


def part() -> Part:
    figures = (
        Figure("recovery_plain_tokens", "tokens until no more is drafted by the old plan", "≤ 30"),
        Figure("recovery_best_tokens", "tokens until a plan worth 85 % of the new best is in use", "≤ 600"),
    )
    return Part("shift", figures, run)


def run(lab: Lab) -> Findings:
    planted = Planted.made(lab)
    drafter = SkipDrafter(SkipDrafter.Options(), planted.network)
    stream = Stream(planted.network, drafter, planted.costs, lab.clock)
    for number in range(_TEXTS):
        stream.decode(planted.prompts[number % len(planted.prompts)], lab.effort.answer)
        if not tuner_of(drafter).searching:
            break
    old = tuner_of(drafter).plan
    model = moved(grown(lab)[0], _SEED)
    watch = Watch(replace(planted, model=model, network=prepare(model.model, KIND).network), old, drafter)
    stream.network = watch.planted.network
    for number in range(_TEXTS):
        stream.decode(planted.prompts[number % len(planted.prompts)], lab.effort.answer, watch)
        if watch.best is not None:
            break
    lab.tell(f"  old plan gone after {watch.plain} tokens, a good new one after {watch.best}")
    return {
        "recovery_plain_tokens": _known(watch.plain, "the old plan was never dropped"),
        "recovery_best_tokens": _known(watch.best, "no good plan was found again"),
    }


def _known(tokens: int | None, otherwise: str) -> int | Absent:
    return Absent(otherwise) if tokens is None else tokens


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
