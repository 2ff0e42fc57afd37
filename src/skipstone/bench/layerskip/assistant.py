"""transformers' own early exit on the same weights and prompts at the same exit, against its plain ``generate``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ..efficiency.assistant import drafting_by, fixed
from ..efficiency.decoding import Job, theirs
from ..efficiency.lab import Lab
from ..efficiency.part import Figure, Findings, Part
from ..timing import Rounds, interleaved, paired_ratio
from .trial import Trial, by_turns

_PLAIN, _DEPTHS = "plain", (2, 4)
_WARM_UP = 8  # tokens


def part(trial: Trial) -> Part:
    meaning = "transformers' assistant_early_exit / its generate at the same exit, the better of 2 and 4 tokens"
    return Part("assistant", (Figure("assistant_early_exit_speedup", meaning),), partial(run, trial))


def run(trial: Trial, lab: Lab) -> Findings:
    exit_layer = trial.setting(lab).exit
    model = trial.models.theirs()
    texts = trial.jobs(trial.models.language_model("auto"))
    jobs = [job for _, job in by_turns(texts)][: trial.extent.rival_prompts * len(texts)]
    arms = _arms(model, jobs, exit_layer, lab)
    for warm_up in _arms(model, [replace(jobs[0], new_tokens=_WARM_UP)], exit_layer, lab).values():
        warm_up(0)
    taken = interleaved(arms, Rounds(len(jobs), lab.effort.rounds.budget_s, 1), lab.clock)
    found = {name: paired_ratio(taken[_PLAIN], taken[name]) for name in arms if name != _PLAIN}
    return {
        "assistant_early_exit_speedup": max(found.values(), key=lambda estimate: estimate.value),
        "assistant_early_exit": {name: estimate.value for name, estimate in found.items()},
        "assistant_exit": exit_layer,
        "assistant_texts": len(taken[_PLAIN]),
    }


def _arms(model: Any, jobs: list[Job], exit_layer: int, lab: Lab) -> Mapping[str, Callable[[int], float]]:
    def arm(depth: int | None, number: int) -> float:
        more = {} if depth is None else {"assistant_early_exit": exit_layer}
        with drafting_by(model, {} if depth is None else fixed(depth)):
            return theirs(model, jobs[number], lab.clock, **more)

    return {_PLAIN: partial(arm, None), **{f"{depth} tokens": partial(arm, depth) for depth in _DEPTHS}}
