"""Plain decoding: our engine without a draft against transformers' greedy ``generate``, whole texts, prefill and all.

Both sides take in the same prompts and give the same number of tokens. Theirs computes in float32; so does ours, once
on packed float32 weights and once on packed float16 weights, which hold the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from statistics import median

from ...network import Network
from ..timing import Samples, interleaved, paired_ratio
from .decoding import Job, decode, theirs
from .lab import Lab
from .part import Absent, Figure, Findings, Part
from .weights import as_asked, or_absent

_KINDS = ("float32", "float16")
_THEIRS = "transformers"


def part() -> Part:
    figures = (
        Figure("plain_ratio_float32", "plain decoding / transformers generate, float32 weights", "≥ 2"),
        Figure("plain_ratio_float16", "the same, our weights packed as float16", "≥ 3"),
    )
    return Part("plain", figures, run)


def run(lab: Lab) -> Findings:
    networks = {kind: or_absent(partial(_network, lab, kind)) for kind in _KINDS}
    arms = _arms({kind: each for kind, each in networks.items() if not isinstance(each, Absent)}, lab)
    for arm in arms.values():
        arm(0)
    taken = interleaved(arms, lab.effort.rounds, lab.clock)
    ratios = {
        f"plain_ratio_{kind}": each if isinstance(each, Absent) else paired_ratio(taken[_THEIRS], taken[kind])
        for kind, each in networks.items()
    }
    return {**ratios, "plain_tokens_per_second": _speeds(taken, lab.effort.answer)}


def _network(lab: Lab, kind: str) -> Network:
    return as_asked(lab.models.ours(kind), kind)


def _arms(networks: Mapping[str, Network], lab: Lab) -> Mapping[str, Callable[[int], float]]:
    models, clock = lab.models, lab.clock
    jobs = [Job(prompt, lab.effort.answer) for prompt in models.prompts()]

    def ours(network: Network, number: int) -> float:
        return decode(network, "none", jobs[number % len(jobs)], clock).seconds

    def reference(number: int) -> float:
        return theirs(models.theirs(), jobs[number % len(jobs)], clock)

    return {**{kind: partial(ours, each) for kind, each in networks.items()}, _THEIRS: reference}


def _speeds(taken: Samples, tokens: int) -> dict[str, float]:
    return {name: tokens / median(spent) for name, spent in taken.items()}
