"""Drafting with the best exit against plain decoding of the same weights in the same engine, on held-out prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

from ...errors import SkipstoneError
from ...telemetry import Summary
from ...text.language_model import LanguageModel
from ..check import only_near_ties
from ..efficiency.decoding import Decoded, Job
from ..efficiency.lab import Lab
from ..efficiency.part import CannotMeasure, Figure, Findings, Part, why
from ..timing import Estimate, Rounds, interleaved, paired_ratio
from .setting import Setting, decoded
from .trial import Trial, by_turns

_FEWEST = 4  # tokens after the first; a text that ends sooner tells nothing of speed
_PLAIN = "none"


def part(trial: Trial) -> Part:
    figures = (
        Figure("best_exit", "exit that decodes fastest, of those trained"),
        Figure("best_depth", "tokens drafted with it"),
        Figure("best_width", "choices kept of each"),
        Figure("speedup", "drafted / plain, the same weights and engine, as a model loads by default"),
        Figure("acceptance_rate", "drafted tokens accepted, of 1"),
        Figure("mean_accepted", "M: tokens of a verification"),
        Figure("differences", "texts that are not plain decoding's; near-ties are counted beside them", "≤ 0"),
    )
    return Part("decoding", figures, partial(run, trial))


def run(trial: Trial, lab: Lab) -> Findings:
    """With the weights that ``load`` chooses, and with float16 where that is another choice."""
    setting = trial.setting(lab)
    main = _measured(trial, "auto", setting, lab)
    details: dict[str, Any] = {"auto": main.to_json()}
    arms = [main]
    if main.weights != "float16":
        try:
            arms.append(_measured(trial, "float16", trial.setting(lab, "float16", setting.exit), lab))
            details["float16"] = arms[-1].to_json()
        except SkipstoneError as error:  # not every machine and model has them
            details["float16"] = {"absent": why(error)}
    first = main.heads[trial.extent.heads[0]]
    return {
        "best_exit": setting.exit,
        "best_depth": setting.depth,
        "best_width": setting.width,
        "speedup": first.speedup(),
        "acceptance_rate": first.summary.acceptance_rate,
        "mean_accepted": first.summary.mean_accepted_length,
        "differences": sum(each.differences for arm in arms for each in arm.heads.values()),
        "near_ties": sum(each.near_ties for arm in arms for each in arm.heads.values()),
        "decoding": details,
    }


@dataclass(frozen=True)
class Pair:
    """One text, decoded plainly and drafted in the same round."""

    kind: str
    plain: Decoded
    drafted: Decoded


@dataclass
class Head:
    """All texts drafted with one head. ``near_ties`` and ``differences`` count texts that are not plain ones."""

    pairs: list[Pair]
    near_ties: int = 0
    differences: int = 0

    @property
    def summary(self) -> Summary:
        total = Summary()
        for pair in self.pairs:
            total.merge(pair.drafted.summary)
        return total

    def speedup(self, kind: str | None = None) -> Estimate:
        some = [pair for pair in self.pairs if kind in (None, pair.kind)]
        return paired_ratio([pair.plain.per_token for pair in some], [pair.drafted.per_token for pair in some])

    def to_json(self) -> dict[str, Any]:
        kinds = list(dict.fromkeys(pair.kind for pair in self.pairs))
        whole = self.speedup()
        return {
            "speedup": whole.value,
            "interval": whole.interval,
            "by_text": {kind: self._told(kind) for kind in kinds},
            "acceptance_rate": self.summary.acceptance_rate,
            "acceptance_by_depth": self.summary.acceptance_by_depth,
            "mean_accepted": self.summary.mean_accepted_length,
            "texts": len(self.pairs),
            "tokens": sum(len(pair.drafted.tokens) for pair in self.pairs),
            "differences": self.differences,
            "near_ties": self.near_ties,
        }

    def _told(self, kind: str) -> dict[str, float]:
        some = Head([pair for pair in self.pairs if pair.kind == kind])
        return {
            "speedup": some.speedup().value,
            "acceptance_rate": some.summary.acceptance_rate,
            "mean_accepted": some.summary.mean_accepted_length,
            "plain_tokens_per_second": 1 / median(pair.plain.per_token for pair in some.pairs),
            "tokens_per_second": 1 / median(pair.drafted.per_token for pair in some.pairs),
        }


@dataclass(frozen=True)
class Measured:
    """With one kind of weights: ``weights`` are what the network made of it."""

    weights: str
    setting: Setting
    heads: dict[str, Head] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        setting = {
            "exit": self.setting.exit,
            "depth": self.setting.depth,
            "width": self.setting.width,
            "tried": self.setting.tried,
        }
        return {
            "weights": self.weights,
            **setting,
            "heads": {name: each.to_json() for name, each in self.heads.items()},
        }


def _measured(trial: Trial, weights: str, setting: Setting, lab: Lab) -> Measured:
    model = trial.models.language_model(weights)
    jobs = by_turns(trial.jobs(model))
    taken = _decoded(model, setting, trial.extent.heads, jobs, lab)
    found = Measured(model.loaded.network.weights, setting)
    for head in trial.extent.heads:
        rounds = zip(jobs, taken[_PLAIN], taken[head], strict=False)
        pairs = [Pair(kind, plain, drafted) for (kind, _), plain, drafted in rounds if plain.steady_tokens >= _FEWEST]
        if not pairs:
            raise CannotMeasure("every text ended at once: there is no speed to measure")
        found.heads[head] = Head(pairs)
        for (_, job), plain, drafted in zip(jobs, taken[_PLAIN], taken[head], strict=False):
            _judge(found.heads[head], model, setting.spec(head), job, (plain, drafted))
        said = found.heads[head].to_json()
        lab.tell(
            f"  {found.weights}, {setting.spec(head)}: {said['speedup']:.2f} times plain decoding, "
            f"M {said['mean_accepted']:.2f}, α {said['acceptance_rate']:.2f}, {said['differences']} differences"
        )
    return found


def _decoded(
    model: LanguageModel, setting: Setting, heads: Sequence[str], jobs: Sequence[tuple[str, Job]], lab: Lab
) -> dict[str, list[Decoded]]:
    """By arm, a text a round; arms take turns within each round."""
    taken: dict[str, list[Decoded]] = {name: [] for name in (_PLAIN, *heads)}

    def arm(name: str, spec: str) -> Callable[[int], float]:
        def take(number: int) -> float:
            taken[name].append(decoded(model, spec, jobs[number][1], lab.clock))
            return taken[name][-1].per_token

        return take

    arms = {_PLAIN: arm(_PLAIN, _PLAIN), **{head: arm(head, setting.spec(head)) for head in heads}}
    for head in heads:
        decoded(model, setting.spec(head), replace(jobs[0][1], new_tokens=8), lab.clock)  # warms up
    interleaved(arms, Rounds(len(jobs), lab.effort.rounds.budget_s, min(4, len(jobs))), lab.clock)
    return taken


def _judge(head: Head, model: LanguageModel, spec: str, job: Job, texts: tuple[Decoded, Decoded]) -> None:
    """A text that is not the plain one is looked into as ``skipstone check`` would."""
    if texts[0].tokens == texts[1].tokens:
        return
    if only_near_ties(model, spec, job.request):
        head.near_ties += 1
    else:
        head.differences += 1
