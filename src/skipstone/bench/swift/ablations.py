"""The paper's preset with one thing changed at a time, on a model whose best plan is known."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...draft.none import NoDrafter
from ...draft.swift import SwiftDrafter
from ..efficiency.lab import Lab
from ..efficiency.part import Figure, Findings, Part
from . import differences
from .planted import Planted
from .stream import Stream
from .tasks import task_prompts

_VARIANTS: dict[str, dict[str, Any]] = {
    "preset": {},
    "no Bayes": {"beta": 0},
    "no early stop": {"epsilon": 0.0},
    "no dynamic verification": {"bands": "off"},
    "γ 16": {"gamma": 16},
    "γ 64": {"gamma": 64},
    "β 5": {"beta": 5},
    "r 0.3": {"r": 0.3},
    "r 0.5": {"r": 0.5},
}
_OF_A_TASK = 2  # texts
_CUTS = (0, 8, 16)  # tokens taken off a prompt's beginning, for other texts by the same prompts


def part(data: Path | None) -> Part:
    figure = Figure("ablations", "by variant of swift: speed over plain decoding and best matchness, text by text")
    return Part("ablations", (figure, differences.figure("ablations")), partial(run, data))


def run(data: Path | None, lab: Lab, variants: Collection[str] = tuple(_VARIANTS)) -> Findings:
    """All variants have the same texts, one after another, and go on from text to text."""
    planted = Planted.made(lab)
    plain = Stream(planted.network, NoDrafter(NoDrafter.Options(), planted.network), None, lab.clock)
    drafters = {name: SwiftDrafter(SwiftDrafter.Options(**_VARIANTS[name]), planted.network) for name in variants}
    found: dict[str, Any] = {name: {"speed": [], "matchness": []} for name in variants}
    prompts, differing = _prompts(data, lab, planted), 0
    for number, prompt in enumerate(prompts):
        base = plain.decode(prompt, lab.effort.new_tokens)
        for name, drafter in drafters.items():
            told = Stream(planted.network, drafter, planted.costs, lab.clock).decode(prompt, lab.effort.new_tokens)
            found[name]["speed"].append(base.per_token / told.per_token)
            differing += told.tokens != base.tokens
            best = drafter.tuner.best
            found[name]["matchness"].append(0.0 if best is None else best.matchness)
        lab.tell(f"  text {number + 1} of {len(prompts)}: {_line(found)}")
    for name, drafter in drafters.items():
        found[name]["search_share"] = drafter.tuner.budget.used
    return {"ablations": found, differences.key("ablations"): differing}


def _prompts(data: Path | None, lab: Lab, planted: Planted) -> list[Sequence[int]]:
    """Those of unlike tasks, where their files are given; else the usual ones, whole and cut."""
    if data is not None:
        return [each for some in task_prompts(data, lab.models.encode, _OF_A_TASK).values() for each in some]
    return [prompt[min(cut, len(prompt) // 2) :] for cut in _CUTS for prompt in planted.prompts]


def _line(found: dict[str, Any]) -> str:
    return ", ".join(f"{name} {each['speed'][-1]:.2f} ({each['matchness'][-1]:.2f})" for name, each in found.items())
