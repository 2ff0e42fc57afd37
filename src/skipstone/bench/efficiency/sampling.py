"""Sampling: what it adds to a step, plain and drafted, over greedy decoding.

Steps are compared, not tokens: how many drafts a sampled text accepts is another matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median

from ...engine import Engine
from ...network import Network
from ...sampling import SamplingParams
from ..timing import Clock, Estimate, bootstrap, interleaved, seconds
from .decoding import Job, started, step
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
    """Seconds a sampled step takes longer than a greedy one, in greedy steps.

    Two texts grow side by side, step by step: what slows the machine down slows both. A round is the median over the
    steps of one prompt.
    """
    _apart(network, drafter, prompts[0], lab)
    taken = {"more": lambda number: median(_apart(network, drafter, prompts[number % len(prompts)], lab)) - 1}
    return bootstrap(interleaved(taken, lab.effort.rounds, lab.clock)["more"])


def _apart(network: Network, drafter: str, prompt: Sequence[int], lab: Lab) -> list[float]:
    """Sampled over greedy, for each pair of steps behind the first with its prefill."""
    samplings = (SamplingParams(), _WARM)
    texts = [started(network, drafter, Job(prompt, lab.effort.new_tokens, each)) for each in samplings]
    for text in texts:
        step(text)
    found: list[float] = []
    while all(text.busy for text in texts):
        greedy, sampled = _pair(texts, lab.clock, backwards=len(found) % 2 == 1)
        found.append(sampled / greedy)
    return found or [1.0]


def _pair(texts: Sequence[Engine], clock: Clock, backwards: bool) -> list[float]:
    """Seconds of a step of each."""
    taken = [seconds(partial(step, text), clock) for text in (texts[::-1] if backwards else texts)]
    return taken[::-1] if backwards else taken
