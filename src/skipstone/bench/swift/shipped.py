"""A real model as it is shipped, where skipping cannot pay: what the search costs, and that it costs nothing else."""

from __future__ import annotations

from functools import partial
from statistics import median

from ...calibrate import measure
from ...cost import CostModel
from ...draft.none import NoDrafter
from ...draft.skip import SkipDrafter
from ..efficiency.lab import Lab
from ..efficiency.part import Absent, Figure, Findings, Part
from ..timing import bootstrap, interleaved, paired_ratio, ratios
from . import differences
from .planted import tuner_of
from .stream import Stream, Told

_FEWEST = 50  # texts that the loan of the start is spread over


def part() -> Part:
    figures = (
        Figure("shipped_vs_plain", "drafter skip / plain, by the steps' own timings", "≥ 0.98"),
        Figure("shipped_vs_plain_wall", "the same by the clock on the wall", "≥ 0.97"),
        Figure(
            "search_share",
            "of the time, the loan of the start among it, over shipped_texts texts: 100, or 50 if that takes too long",
            "≤ 0.01",
        ),
        differences.figure("shipped"),
    )
    return Part("shipped", figures, run)


def run(lab: Lab) -> Findings:
    network, prompts = lab.models.ours("auto"), lab.models.prompts()
    drafter = SkipDrafter(SkipDrafter.Options(), network)
    costs = CostModel(measure(network, lab.effort.calibration_s))
    streams = {
        "plain": Stream(network, NoDrafter(NoDrafter.Options(), network), None, lab.clock),
        "skip": Stream(network, drafter, costs, lab.clock),
    }
    told: dict[str, list[Told]] = {name: [] for name in streams}

    def arm(name: str, number: int) -> float:
        told[name].append(streams[name].decode(prompts[number % len(prompts)], lab.effort.answer))
        return told[name][-1].per_token

    streams["plain"].decode(prompts[0], lab.effort.answer)
    taken = interleaved({name: partial(arm, name) for name in streams}, lab.effort.stream, lab.clock)
    recorded = {name: [text.recorded for text in texts] for name, texts in told.items()}
    lab.tell(f"  {tuner_of(drafter).told()}")
    return {
        "shipped_vs_plain": bootstrap(ratios(recorded["plain"], recorded["skip"])),
        "shipped_vs_plain_wall": paired_ratio(taken["plain"], taken["skip"]),
        "search_share": _share(tuner_of(drafter).budget.used, len(told["skip"]), lab),
        differences.key("shipped"): differences.differing(told["plain"], told["skip"]),
        "shipped_texts": len(told["skip"]),
        "shipped_drafted_share": median(sum(s.drafted > 0 for s in t.steps) / len(t.steps) for t in told["skip"]),
        "shipped_told": tuner_of(drafter).told(),
    }


def _share(used: float, texts: int, lab: Lab) -> float | Absent:
    if texts >= _FEWEST or lab.effort.quick_only:
        return used
    return Absent(
        f"{used:.2%} over {texts} texts, all there was time for: fewer than {_FEWEST} are mostly its beginning"
    )
