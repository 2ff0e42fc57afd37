"""The cost model: how far its predictions are from real runs, over plans, nodes and contexts, most measured nowhere."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from ...calibrate import measure
from ...cost import CostModel, Step
from ...network import Network
from ...plan import LayerPlan
from ..timing import Rounds, bootstrap, interleaved, seconds
from .lab import Lab
from .part import Figure, Findings, Part
from .steps import Runs

_MOST_NODES = 16
_SEED = 0


def part() -> Part:
    meaning = "median of |predicted - measured| / measured over plans, nodes and contexts"
    return Part("cost_model", (Figure("cost_model_error", meaning, "≤ 0.1"),), run)


def run(lab: Lab) -> Findings:
    network = lab.models.ours("auto")
    table = measure(network, lab.effort.calibration_s, lab.clock)
    errors = measured_errors(network, CostModel(table), lab)
    return {
        "cost_model_error": bootstrap(errors.refined),
        "cost_model_error_p90": sorted(errors.refined)[int(0.9 * (len(errors.refined) - 1))],
        "cost_model_error_unrefined": bootstrap(errors.unrefined),
        "cost_model_steps": len(errors.refined),
    }


@dataclass(frozen=True)
class Errors:
    """|predicted - measured| / measured of every step, by the model as it learns and by its table alone."""

    refined: list[float]
    unrefined: list[float]


def measured_errors(network: Network, model: CostModel, lab: Lab) -> Errors:
    """In the order of ``steps_for``. As in the engine, the model learns from full runs, and predicts before each."""
    contexts = [c for c in lab.effort.contexts if c + _MOST_NODES <= network.context]
    steps = steps_for(network.num_layers, lab.effort.between, contexts)
    runs = {context: Runs(network, context) for context in contexts}
    predicted: dict[int, list[float]] = {number: [] for number in range(len(steps))}

    def taking(number: int) -> Callable[[int], float]:
        step, call = steps[number], runs[steps[number].context].step(steps[number])

        def take(_: int) -> float:
            predicted[number].append(model.ms(step))
            ms = 1e3 * seconds(call, lab.clock)
            if step.plan == LayerPlan.full(network.num_layers):
                model.observe(step, ms)
            return ms

        return take

    order = random.Random(_SEED).sample(range(len(steps)), len(steps))
    taken = interleaved({str(n): taking(n) for n in order}, Rounds(lab.effort.steps + 1, 120.0, 3), lab.clock)
    found = [median(taken[str(number)][1:]) for number in range(len(steps))]  # the first round warms up
    return Errors(
        [abs(median(predicted[n][1:]) - ms) / ms for n, ms in enumerate(found)],
        [abs(model.table.ms(step) - ms) / ms for step, ms in zip(steps, found, strict=True)],
    )


def steps_for(layers: int, nodes: Sequence[int], contexts: Sequence[int]) -> list[Step]:
    third = max(layers // 3, 1)
    plans = [
        LayerPlan.full(layers),
        LayerPlan.until(third),
        LayerPlan.until(max(layers - third, 1)),
        LayerPlan.skipping(layers, range(1, layers - 1, 2), range(1, layers - 1, 2)),
        LayerPlan.skipping(layers, attn=range(1, layers - 1)),
        LayerPlan.skipping(layers, mlp=range(1, layers - 1)),
    ]
    few = [n for n in nodes if n <= _MOST_NODES]
    return [Step(plan, n, context=c) for plan in plans for n in few for c in contexts]
