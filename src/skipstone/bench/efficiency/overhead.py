"""Overhead: the share of a plain step that is neither layers nor head, seen by a clock around both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from torch import Tensor

from ...engine import Engine
from ...hf.prepare import prepare
from ...network import Network, Run
from ...plugins import make_drafter
from ..planted.random import random_llama
from ..timing import Clock, Estimate, bootstrap
from .decoding import Job
from .lab import Lab
from .part import Figure, Findings, Part
from .planted_exit import prompts_for

T = TypeVar("T")


def part() -> Part:
    figure = Figure("overhead_share", "of a plain step outside the network, the real model", "≤ 0.10")
    return Part("overhead", (figure,), run)


def part_1b() -> Part:
    figure = Figure("overhead_share_1b", "of a plain step outside the network, a billion random weights", "≤ 0.03")
    return Part("overhead_1b", (figure,), run_1b)


def run(lab: Lab) -> Findings:
    return {"overhead_share": share(lab.models.ours("auto"), lab.models.prompts(), lab)}


def run_1b(lab: Lab) -> Findings:
    """Its layers share their numbers until they are packed, each into memory of its own."""
    lab.tell("  building a model of a billion weights")
    network = prepare(random_llama(lab.effort.large, alike=True), "float16").network
    return {"overhead_share_1b": share(network, prompts_for(lab, network.vocab_size), lab.share(4))}


class TimedNetwork:
    """A network that adds up the seconds spent inside it."""

    def __init__(self, network: Network, clock: Clock) -> None:
        self._network, self._clock = network, clock
        self.inside_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def run(self, *args: Any, **named: Any) -> Run:
        return self._timed(lambda: self._network.run(*args, **named))

    def logits(self, *args: Any, **named: Any) -> Tensor:
        return self._timed(lambda: self._network.logits(*args, **named))

    def _timed(self, call: Callable[[], T]) -> T:
        began = self._clock()
        try:
            return call()
        finally:
            self.inside_s += self._clock() - began


def share(network: Network, prompts: Sequence[Sequence[int]], lab: Lab) -> Estimate:
    """Of the time of plain steps, text by text; the first step of each, with its prefill, is left out."""
    rounds = lab.effort.rounds
    jobs = [Job(prompt, lab.effort.new_tokens) for prompt in prompts]
    outside(network, jobs[0], lab.clock)
    began = lab.clock()
    shares: list[float] = []
    while len(shares) < rounds.most and (not shares or lab.clock() - began < rounds.budget_s):
        shares.append(outside(network, jobs[len(shares) % len(jobs)], lab.clock))
    return bootstrap(shares)


def outside(network: Network, job: Job, clock: Clock) -> float:
    timed = TimedNetwork(network, clock)
    proxy = cast("Network", timed)
    engine = Engine(proxy, make_drafter("none", proxy), capacity=len(job.prompt) + job.new_tokens)
    engine.admit(job.request)
    while engine.busy and not engine.step():
        pass
    began, inside = clock(), timed.inside_s
    while engine.busy:
        engine.step()
    return 1 - (timed.inside_s - inside) / (clock() - began)
