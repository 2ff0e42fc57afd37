"""Verification: how much more than a plain step N nodes cost. Where weights are all that counts, nothing."""

from __future__ import annotations

from statistics import median
from typing import Any

from ...cost import Step
from ...network import Network
from ...plan import LayerPlan
from ..timing import Estimate, Rounds, bootstrap, paired_ratio, timed
from .lab import Lab
from .part import Absent, Figure, Findings, Part, why
from .steps import Runs
from .traffic import bandwidth, traffic_of
from .weights import as_asked

_KINDS = {"float32": "≤ 1.35", "float16": "≤ 1.25"}
_OF = 6


def part() -> Part:
    figures = [
        Figure(f"verify{_OF}_{kind}", f"a run of {_OF} nodes / of one, {kind} weights", wanted)
        for kind, wanted in _KINDS.items()
    ]
    return Part("verify", tuple(figures), run)


def run(lab: Lab) -> Findings:
    speed = bandwidth(lab.clock, lab.effort.steps)
    findings: dict[str, Any] = {"bandwidth_gb_s": speed / 1e9, "verify_ms": {}, "verify_bound_ms": {}, "kernels": {}}
    for kind in _KINDS:
        try:
            network = as_asked(lab.models.ours(kind), kind)
            table = measured(network, lab)
        except Exception as error:  # the other kind of weights may well work
            findings[f"verify{_OF}_{kind}"] = Absent(why(error))
            continue
        findings[f"verify{_OF}_{kind}"] = ratio_of(table, _OF)
        findings["kernels"][kind] = getattr(network, "weights", "stock")
        findings["verify_ms"][kind] = {str(n): 1e3 * median(spent) for n, spent in table.items()}
        findings["verify_bound_ms"][kind] = 1e3 * traffic_of(network).full / speed
    return findings


def measured(network: Network, lab: Lab) -> dict[int, list[float]]:
    """Seconds of a full run with its head, by nodes."""
    effort = lab.effort
    runs = Runs(network, min(effort.context, network.context - max(effort.nodes)))
    full = LayerPlan.full(network.num_layers)
    arms = {str(nodes): runs.step(Step(full, nodes)) for nodes in effort.nodes}
    taken = timed(arms, Rounds(2 * effort.steps, effort.rounds.budget_s / 3), lab.clock)
    return {int(nodes): spent for nodes, spent in taken.items()}


def ratio_of(table: dict[int, list[float]], nodes: int) -> Estimate:
    return paired_ratio(table[nodes], table[1]) if nodes in table else bootstrap([])
