"""Sampling: what it adds to a step, plain and drafted, over greedy decoding.

Steps are compared, not tokens: how many drafts a sampled text accepts is another matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ...network import Network
from ...sampling import SamplingParams
from ..timing import Estimate, bootstrap, interleaved, ratios
from .decoding import Job, decode
from .lab import Lab
from .part import Figure, Findings, Part

_WARM = SamplingParams(temperature=0.8, top_p=0.95, seed=0)


def part() -> Part:
    figures = (
        Figure("sampling_share", "temperature 0.8, top_p 0.95: added to a plain step", "≤ 0.08"),
        Figure("sampling_share_drafted", "the same, added to a drafted cycle"),
    )
    return Part("sampling", figures, run)


def run(lab: Lab) -> Findings:
    network, lab = lab.models.ours("auto"), lab.share(2)
    prompts = lab.models.prompts()
    exits = f"exit:layer={max(network.num_layers // 2, 1)},depth={lab.effort.depth}"
    return {
        "sampling_share": added(network, "none", prompts, lab),
        "sampling_share_drafted": added(network, exits, prompts, lab),
    }


def added(network: Network, drafter: str, prompts: Sequence[Sequence[int]], lab: Lab) -> Estimate:
    """Seconds a sampled step takes longer than a greedy one, in greedy steps."""
    arms = _arms(network, drafter, prompts, lab)
    for arm in arms.values():
        arm(0)
    taken = interleaved(arms, lab.effort.rounds, lab.clock)
    return bootstrap([ratio - 1 for ratio in ratios(taken["sampled"], taken["greedy"])])


def _arms(
    network: Network, drafter: str, prompts: Sequence[Sequence[int]], lab: Lab
) -> Mapping[str, Callable[[int], float]]:
    def arm(sampling: SamplingParams, number: int) -> float:
        job = Job(prompts[number % len(prompts)], lab.effort.new_tokens, sampling)
        return decode(network, drafter, job, lab.clock).per_step

    return {"greedy": partial(arm, SamplingParams()), "sampled": partial(arm, _WARM)}
