"""The paper's preset on a model whose best plan is known: what it reaches, beside the default of part ``planted``."""

from __future__ import annotations

from ...draft.none import NoDrafter
from ...draft.swift import SwiftDrafter
from ..efficiency.lab import Lab
from ..efficiency.part import Figure, Findings, Part
from . import differences
from .planted import Planted
from .stream import Stream


def part() -> Part:
    figures = (
        Figure("preset_speedup", "preset swift / plain on the planted model, its candidates paid for, last text"),
        Figure("preset_worth", "its plan's predicted speed over the best plan's"),
        differences.figure("preset"),
    )
    return Part("preset", figures, run)


def run(lab: Lab) -> Findings:
    planted = Planted.made(lab)
    drafter = SwiftDrafter(SwiftDrafter.Options(), planted.network)
    plain = Stream(planted.network, NoDrafter(NoDrafter.Options(), planted.network), None, lab.clock)
    swift = Stream(planted.network, drafter, planted.costs, lab.clock)
    pairs = [
        (plain.decode(prompt, lab.effort.answer), swift.decode(prompt, lab.effort.answer)) for prompt in planted.prompts
    ]
    speeds = [base.per_token / drafted.per_token for base, drafted in pairs]
    best = drafter.tuner.best
    matchness = 0.0 if best is None else best.matchness
    trials = sum(event.what == "trial" for event in drafter.tuner.events)
    lab.tell(f"  {trials} candidates, matchness {matchness:.2f}, {speeds[-1]:.2f} times plain decoding")
    return {
        "preset_speedup": speeds[-1],
        "preset_worth": 0.0 if best is None else planted.worth(best.plan, matchness),
        differences.key("preset"): differences.differing(*zip(*pairs, strict=True)),
        "preset_speeds": speeds,
        "preset_candidates": trials,
        "preset_matchness": matchness,
        "preset_search_share": drafter.tuner.budget.used,
    }
