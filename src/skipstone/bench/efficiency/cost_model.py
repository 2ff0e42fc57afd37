"""The cost model: how far its predictions are from real runs, over plans, nodes and contexts it was not measured at."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median

from ...calibrate import measure
from ...cost import CostModel, Step
from ...network import Network
from ...plan import LayerPlan
from ..timing import Rounds, bootstrap, timed
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
    model = CostModel(measure(network, lab.effort.calibration_s, lab.clock))
    errors = measured_errors(network, model, lab)
    return {
        "cost_model_error": bootstrap(errors),
        "cost_model_error_p90": sorted(errors)[int(0.9 * (len(errors) - 1))],
        "cost_model_steps": len(errors),
    }


def measured_errors(network: Network, model: CostModel, lab: Lab) -> list[float]:
    """Of every step, in the order of ``steps_for``."""
    contexts = [c for c in lab.effort.contexts if c + _MOST_NODES <= network.context]
    steps = steps_for(network.num_layers, lab.effort.nodes, contexts)
    runs = {context: Runs(network, context) for context in contexts}
    arms = {str(number): runs[step.context].step(step) for number, step in enumerate(steps)}
    shuffled = random.Random(_SEED).sample(list(arms), len(arms))
    taken = timed({name: arms[name] for name in shuffled}, Rounds(lab.effort.steps, 120.0, 2), lab.clock)
    found = [1e3 * median(taken[str(number)]) for number in range(len(steps))]
    return [abs(model.ms(step) - ms) / ms for step, ms in zip(steps, found, strict=True)]


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
