"""The paper's preset with one thing changed at a time, on a model whose best plan is known."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...draft.none import NoDrafter
from ...draft.swift import SwiftDrafter
from ..efficiency.lab import Lab
from ..efficiency.part import Figure, Findings, Part
from .planted import Planted
from .stream import Stream

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


def part() -> Part:
    figure = Figure("ablations", "by variant of swift: speed over plain decoding and best matchness, text by text")
    return Part("ablations", (figure,), run)


def run(lab: Lab, variants: Collection[str] = tuple(_VARIANTS)) -> Findings:
    """Each variant has the same texts, and goes on from text to text."""
    planted = Planted.made(lab)
    plain = Stream(planted.network, NoDrafter(NoDrafter.Options(), planted.network), None, lab.clock)
    found: dict[str, Any] = {}
    for name in variants:
        drafter = SwiftDrafter(SwiftDrafter.Options(**_VARIANTS[name]), planted.network)
        stream = Stream(planted.network, drafter, planted.costs, lab.clock)
        speed, matchness = [], []
        for prompt in planted.prompts:
            base = plain.decode(prompt, lab.effort.answer).per_token
            speed.append(base / stream.decode(prompt, lab.effort.answer).per_token)
            best = drafter.tuner.best
            matchness.append(0.0 if best is None else best.matchness)
        found[name] = {"speed": speed, "matchness": matchness, "search_share": drafter.tuner.budget.used}
        lab.tell(f"  {name}: {speed[-1]:.2f} times plain decoding, matchness {matchness[-1]:.2f}")
    return {"ablations": found}
