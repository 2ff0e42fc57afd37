"""transformers' own early exit, ``assistant_early_exit``, on the planted exit model against its plain ``generate``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..timing import interleaved, paired_ratio
from .decoding import Job, theirs
from .lab import Lab
from .part import Figure, Findings, Part
from .planted_exit import planted, prompts_for

_PLAIN, _DEFAULT, _FIXED = "plain", "as it comes", "fixed depth"


def part() -> Part:
    meaning = "transformers' assistant_early_exit / its generate, planted exit model, the better of two settings"
    return Part("assistant_early_exit", (Figure("assistant_early_exit_speedup", meaning),), run)


def run(lab: Lab) -> Findings:
    arms = _arms(lab)
    for arm in arms.values():
        arm(0)
    taken = interleaved(arms, lab.effort.rounds, lab.clock)
    found = {name: paired_ratio(taken[_PLAIN], taken[name]) for name in (_DEFAULT, _FIXED)}
    best = max(found.values(), key=lambda estimate: estimate.value)
    details = {name: estimate.value for name, estimate in found.items()}
    return {"assistant_early_exit_speedup": best, "assistant_early_exit": details}


def _arms(lab: Lab) -> Mapping[str, Callable[[int], float]]:
    model, effort = planted(lab).model, lab.effort
    tokens = effort.cycles * (effort.depth + 1)
    jobs = [Job(prompt, tokens) for prompt in prompts_for(lab, effort.shape.vocab_size)]

    def arm(settings: Mapping[str, Any], early: int | None, number: int) -> float:
        more = {} if early is None else {"assistant_early_exit": early}
        with drafting_by(model, settings):
            return theirs(model, jobs[number % len(jobs)], lab.clock, **more)

    exit_layer = effort.exit_layer
    return {
        _PLAIN: partial(arm, {}, None),
        _DEFAULT: partial(arm, {}, exit_layer),
        _FIXED: partial(arm, fixed(effort.depth), exit_layer),
    }


def fixed(depth: int) -> dict[str, Any]:
    """Settings by which ``depth`` tokens are drafted, always."""
    return {
        "num_assistant_tokens": depth,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }


@contextmanager
def drafting_by(model: Any, settings: Mapping[str, Any]) -> Iterator[None]:
    """The model drafts by these settings of its generation_config, which are then as before."""
    before = model.generation_config.to_dict()
    model.generation_config.update(**settings)
    try:
        yield
    finally:
        model.generation_config.update(**{name: before.get(name) for name in settings})
