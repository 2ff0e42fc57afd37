"""A stream of unlike tasks: plans that stay, a plan tuned on the first task, the paper's search, and the default's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from ...calibrate import measure
from ...cost import CostModel
from ...draft.none import NoDrafter
from ...draft.skip import SkipDrafter
from ...draft.swift import SwiftDrafter
from ...drafting import Drafter
from ...network import Network
from ...plugins import make_drafter
from ...telemetry import Summary
from ..efficiency.lab import Lab
from ..efficiency.part import Figure, Findings, Part
from . import differences
from .fixed_plan import drafter_of
from .planted import Planted
from .stream import Stream, Told
from .tasks import task_prompts

Prompts = Mapping[str, Sequence[Sequence[int]]]  # by task


def part(data: Path | None) -> Part:
    figure = Figure("stream", "speed over plain decoding and acceptance: by model, drafter and task, in that order")
    return Part("stream", (figure, differences.figure("stream")), partial(run, data))


def run(data: Path | None, lab: Lab) -> Findings:
    prompts = task_prompts(data, lab.models.encode, lab.effort.task_prompts)
    shipped = lab.models.ours("auto")
    found = {lab.models.name: streamed(shipped, CostModel(measure(shipped, lab.effort.calibration_s)), prompts, lab)}
    planted = Planted.made(lab)
    found["planted"] = streamed(planted.network, planted.costs, prompts, lab)
    tasks = [figures for drafters in found.values() for by_task in drafters.values() for figures in by_task.values()]
    return {"stream": found, differences.key("stream"): sum(task["differences"] for task in tasks)}


@dataclass
class Arm:
    """One drafter over the whole stream."""

    stream: Stream
    told: dict[str, list[Told]] = field(default_factory=dict)

    def decode(self, task: str, prompt: Sequence[int], tokens: int) -> None:
        self.told.setdefault(task, []).append(self.stream.decode(prompt, tokens))

    def figures(self, task: str, plain: Sequence[Told]) -> dict[str, Any]:
        total = Summary()
        for told in self.told[task]:
            for step in told.steps:
                total.record(step)
        ratios = [one.per_token / other.per_token for one, other in zip(plain, self.told[task], strict=True)]
        return {
            "speed": median(ratios),
            "speeds": ratios,
            "acceptance": total.acceptance_rate,
            "mean_accepted": total.mean_accepted_length,
            "differences": differences.differing(plain, self.told[task]),
        }


def streamed(network: Network, costs: CostModel, prompts: Prompts, lab: Lab) -> dict[str, dict[str, dict[str, Any]]]:
    """By drafter and task; all drafters and plain decoding take turns prompt by prompt."""
    arms = {name: Arm(Stream(network, drafter, costs, lab.clock)) for name, drafter in _drafters(network).items()}
    for number, (task, some) in enumerate(prompts.items()):
        for prompt in some:
            for arm in arms.values():
                arm.decode(task, prompt, lab.effort.new_tokens)
        if number == 0:
            arms["tuned on the first"].stream.drafter = frozen(arms["tuned on the first"].stream.drafter, network)
        lab.tell(f"  {task}: {_line(arms, task)}")
    names = [name for name in arms if name != "plain"]
    return {name: {task: arms[name].figures(task, arms["plain"].told[task]) for task in prompts} for name in names}


def _line(arms: Mapping[str, Arm], task: str) -> str:
    told = {name: arm.figures(task, arms["plain"].told[task])["speed"] for name, arm in arms.items() if name != "plain"}
    return ", ".join(f"{name} {speed:.2f}" for name, speed in told.items())


def _drafters(network: Network) -> dict[str, Drafter]:
    return {
        "plain": NoDrafter(NoDrafter.Options(), network),
        "uniform": make_drafter("skip:plan=uniform", network),
        "tuned on the first": SkipDrafter(SkipDrafter.Options(budget=1.0), network),
        "swift": SwiftDrafter(SwiftDrafter.Options(), network),
        "skip": SkipDrafter(SkipDrafter.Options(), network),
    }


def frozen(drafter: Drafter, network: Network) -> Drafter:
    """The plan and depth found so far, for good; plain decoding where none were."""
    found = drafter.found if isinstance(drafter, SkipDrafter) else None
    if found is None:
        return drafter_of(None, network)
    return drafter_of(found.plan, network, found.depth)
