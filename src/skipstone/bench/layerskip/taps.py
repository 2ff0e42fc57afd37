"""What it costs to keep the streams of some exits in a verification."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...network import Network
from ...plan import LayerPlan
from ...tree import Topology
from ..efficiency.lab import Lab
from ..efficiency.part import Figure, Findings, Part
from ..efficiency.steps import Runs
from ..timing import Rounds, bootstrap, ratios, timed
from .trial import Trial

_WATCHED = 3  # exits tapped at a time, as the drafter does


def part(trial: Trial) -> Part:
    figure = Figure("taps_share", f"added to a plain step by taps at {_WATCHED} exits", "≤ 0.01")
    return Part("taps", (figure,), partial(run, trial))


def run(trial: Trial, lab: Lab) -> Findings:
    network = trial.models.language_model("auto").network
    exits = tuple(sorted({max(place * network.num_layers // (_WATCHED + 1), 1) for place in range(1, _WATCHED + 1)}))
    arms = {"plain": _run(network, lab, ()), "tapped": _run(network, lab, exits)}
    taken = timed(arms, Rounds(20 * lab.effort.steps, lab.effort.rounds.budget_s / 3), lab.clock)
    return {"taps_share": bootstrap([ratio - 1 for ratio in ratios(taken["tapped"], taken["plain"])])}


def _run(network: Network, lab: Lab, taps: tuple[int, ...]) -> Callable[[], object]:
    """A plain step, with its head and its choice; of what was tapped the accepted node is taken."""
    runs = Runs(network, min(lab.effort.context, network.context - 1))
    chain, full, x = Topology.chain(1), LayerPlan.full(network.num_layers), runs.tokens[:, :1]

    def step() -> object:
        run = network.run(x, runs.cache.place(chain, [0]), runs.cache, full, taps)
        kept = [tap[0, [0]] for tap in run.taps.values()]
        return network.logits(run.hidden).argmax(-1).tolist(), kept

    return step
