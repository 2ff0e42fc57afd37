"""Sampling: what it adds to a step, plain and drafted, over greedy decoding.

Steps are compared, not tokens: how many drafts a sampled text accepts is another matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from ...engine import Engine
from ...network import Network
from ...sampling import SamplingParams
from ..timing import Clock, Estimate, bootstrap, interleaved, seconds
from .decoding import Job, started, step
from .lab import Lab
from .part import CannotMeasure, Figure, Findings, Part


def part() -> Part:
    figures = (
        Figure("sampling_share", "temperature 0.8, top_p 0.95: added to a plain step", "≤ 0.08"),
        Figure("sampling_share_drafted", "the same, added to a drafted cycle", "≤ 0.08"),
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
    _apart(network, drafter, Job(prompts[0], lab.effort.new_tokens), lab)
    jobs = partial(_job, prompts, lab.effort.new_tokens)
    taken = {"more": lambda number: median(_apart(network, drafter, jobs(number), lab)) - 1}
    return bootstrap(interleaved(taken, lab.effort.rounds, lab.clock)["more"])


def _job(prompts: Sequence[Sequence[int]], new_tokens: int, number: int) -> Job:
    """Another text each round."""
    return Job(prompts[number % len(prompts)], new_tokens, SamplingParams(temperature=0.8, top_p=0.95, seed=number))


def _apart(network: Network, drafter: str, sampled: Job, lab: Lab) -> list[float]:
    """Sampled over greedy, for each pair of steps behind the first with its prefill.

    Near their ends texts draft less, one sooner than the other: there they are not compared. Raises CannotMeasure where
    that leaves none.
    """
    jobs = (replace(sampled, sampling=SamplingParams()), sampled)
    texts = [_Text(started(network, drafter, job), job.new_tokens - lab.effort.depth - 1) for job in jobs]
    for text in texts:
        text.step()
    found: list[float] = []
    while all(text.even for text in texts):
        greedy, warm = _pair(texts, lab.clock, backwards=len(found) % 2 == 1)
        found.append(warm / greedy)
    if not found:
        raise CannotMeasure(f"texts of {sampled.new_tokens} tokens leave no steps to compare")
    return found


@dataclass
class _Text:
    """``engine`` decodes it; for ``left`` tokens more its drafts have their full length."""

    engine: Engine
    left: int

    def step(self) -> None:
        self.left -= len(step(self.engine))

    @property
    def even(self) -> bool:
        return self.engine.busy and self.left > 0


def _pair(texts: Sequence[_Text], clock: Clock, backwards: bool) -> list[float]:
    """Seconds of a step of each."""
    taken = [seconds(text.step, clock) for text in (texts[::-1] if backwards else texts)]
    return taken[::-1] if backwards else taken
