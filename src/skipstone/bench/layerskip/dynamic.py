"""Exit and depth chosen by step, against fixed ones and plain decoding, over a stream of unlike texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...drafting import Drafter
from ...plugins import make_drafter
from ...telemetry import StepRecord, Summary
from ...text.language_model import LanguageModel
from ..efficiency.decoding import Job
from ..efficiency.lab import Lab
from ..efficiency.part import Figure, Findings, Part
from ..swift.stream import Stream, Told
from ..timing import Estimate, paired_ratio
from .setting import Setting
from .trial import Trial

_PLAIN, _DYNAMIC = "plain", "dynamic"
_COURSE = 64  # tokens to a line of the table over time
_MANY = 3  # exits to compare with at most


def part(trial: Trial) -> Part:
    figures = (
        Figure("dynamic_speedup", "drafter exit, choosing by itself / plain, over the whole stream"),
        Figure(
            "dynamic_over_best_fixed", "the same / the fixed exit and depth that are best over the whole stream", "> 1"
        ),
        Figure("dynamic_worst_kind", "the same by kind of text, against the best for that kind: the lowest", "≥ 0.98"),
        Figure("dynamic_search_share", "comparing exits, of all time", "≤ 0.01"),
    )
    return Part("dynamic", figures, partial(run, trial))


def run(trial: Trial, lab: Lab) -> Findings:
    model = trial.models.language_model("auto")
    jobs = trial.stream(model)
    arms = _arms(model, trial, lab)
    for name in arms.keys() - {_DYNAMIC}:  # which is to start cold
        arms[name].stream.decode(jobs[0][1].prompt, jobs[0][1].new_tokens, stops=jobs[0][1].stops)
    for number, (kind, job) in enumerate(jobs):
        for name in list(arms) if number % 2 == 0 else list(arms)[::-1]:
            arms[name].decode(kind, job)
        lab.tell(f"  {number + 1} of {len(jobs)} texts: dynamic {_over(arms, _PLAIN, _DYNAMIC, None):.2f} times plain")
    return _findings(arms, list(dict.fromkeys(kind for kind, _ in jobs)), trial)


@dataclass
class Arm:
    stream: Stream
    told: list[tuple[str, Told]] = field(default_factory=list)

    def decode(self, kind: str, job: Job) -> None:
        self.told.append((kind, self.stream.decode(job.prompt, job.new_tokens, stops=job.stops)))

    def times(self, kind: str | None) -> list[float]:
        """Seconds a token, by text."""
        return [told.per_token for name, told in self.told if kind in (None, name)]

    @property
    def steps(self) -> list[StepRecord]:
        return [step for _, told in self.told for step in told.steps]


Arms = Mapping[str, Arm]


def _arms(model: LanguageModel, trial: Trial, lab: Lab) -> dict[str, Arm]:
    exits = _compared(model, trial, lab)
    dynamic: Any = make_drafter("exit", model.network)
    dynamic.trained_for(trial.checkpoint.exits)
    fixed = [
        Setting(layer, *shape).spec(head)
        for layer in exits
        for shape in trial.extent.fixed
        for head in trial.extent.heads[-1:]
    ]
    drafters: dict[str, Drafter] = {_PLAIN: make_drafter("none", model.network), _DYNAMIC: dynamic}
    drafters |= {spec: make_drafter(spec, model.network) for spec in fixed}
    return {name: Arm(Stream(model.network, each, model.costs, lab.clock)) for name, each in drafters.items()}


def _compared(model: LanguageModel, trial: Trial, lab: Lab) -> tuple[int, ...]:
    """Exits of the fixed settings: where many were trained, the one found fastest; each takes the whole stream."""
    trained = trial.checkpoint.exits or (max(model.network.num_layers // 4, 1),)
    return trained if len(trained) <= _MANY else (trial.setting(lab).exit,)


def _ratio(arms: Arms, over: str, name: str, kind: str | None) -> Estimate:
    """How many times as fast as ``over``, paired text by text."""
    return paired_ratio(arms[over].times(kind), arms[name].times(kind))


def _over(arms: Arms, over: str, name: str, kind: str | None) -> float:
    """The same by all seconds together: long texts count as much as they take."""
    seconds = {
        each: sum(told.seconds for kind_, told in arms[each].told if kind in (None, kind_)) for each in (over, name)
    }
    return seconds[over] / seconds[name]


def _best(arms: Arms, kind: str | None) -> str:
    """The fixed setting with least time, with the luck of having been chosen by what it is judged by."""
    fixed = [name for name in arms if name not in (_PLAIN, _DYNAMIC)]
    return max(fixed, key=lambda name: _over(arms, _PLAIN, name, kind))


def _findings(arms: Arms, kinds: Sequence[str], trial: Trial) -> Findings:
    best = _best(arms, None)
    by_kind = {kind: _over(arms, _best(arms, kind), _DYNAMIC, kind) for kind in kinds}
    spent = [step.timing for step in arms[_DYNAMIC].steps]
    return {
        "dynamic_speedup": _ratio(arms, _PLAIN, _DYNAMIC, None),
        "dynamic_over_best_fixed": _ratio(arms, best, _DYNAMIC, None),
        "dynamic_worst_kind": min(by_kind.values()),
        "dynamic_search_share": sum(each.search_s for each in spent)
        / sum(each.total_s - each.prefill_s for each in spent),
        "dynamic_differences": sum(
            told.tokens != plain.tokens
            for name in arms
            for (_, told), (_, plain) in zip(arms[name].told, arms[_PLAIN].told, strict=True)
        ),
        "dynamic": {
            "by_kind": {kind: _told(arms, kind) for kind in kinds},
            "over_best_fixed": by_kind,
            "best_fixed": best,
            "course": _course(arms[_DYNAMIC]),
        },
    }


def _told(arms: Arms, kind: str) -> dict[str, dict[str, float]]:
    """By drafter."""
    found = {}
    for name, arm in arms.items():
        total = Summary()
        for told in (told for each, told in arm.told if each == kind):
            for step in told.steps:
                total.record(step)
        figures = {"acceptance_rate": total.acceptance_rate, "mean_accepted": total.mean_accepted_length}
        found[name] = {"speed": _over(arms, _PLAIN, name, kind), **figures}
    return found


def _course(arm: Arm) -> list[dict[str, Any]]:
    """What was drafted, over the stream, some tokens a line."""
    drafter: Any = arm.stream.drafter
    lines: list[dict[str, Any]] = []
    taken = list(drafter.dynamic.finder.history)
    tokens = 0
    part = Summary()
    for kind, told in arm.told:
        for step in told.steps:
            part.record(step)
            tokens += step.emitted
            if part.emitted >= _COURSE:
                lines.append(_line(kind, tokens, part, taken))
                part = Summary()
    return lines


def _line(kind: str, tokens: int, part: Summary, taken: Sequence[Any]) -> dict[str, Any]:
    exits = [each.exit for each in taken if each.tokens <= tokens]
    return {
        "tokens": tokens,
        "text": kind,
        "exit": exits[-1] if exits else None,
        "depth": part.drafted / part.steps,
        "siblings": (part.nodes - part.drafted) / part.steps,
        "acceptance_rate": part.acceptance_rate,
        "mean_accepted": part.mean_accepted_length,
    }
