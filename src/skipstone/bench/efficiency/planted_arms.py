"""Drafted against plain decoding on a model whose drafts are always right, beside what the parts of a cycle allow.

A cycle drafts K tokens and verifies K + 1 nodes:

- skip: K draft steps (the plan's layers, head, pick) and a full run of K + 1 nodes: K·c + v.
- exit: K early passes with head and pick; one more early pass without, for the last drafted token, whose early layers
  nobody has run; then the layers from E on for K + 1 nodes: K·c + late + v_rest.

All are measured in the same rounds as the texts, by running the network without the engine; a plain step likewise.
The *model share* is the measured speed-up over M · plain / cycle, with M from the engine's own records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ...cost import Step
from ...network import Network
from ...plan import LayerPlan
from ..timing import Estimate, Samples, bootstrap, interleaved, paired_ratio, ratios, seconds
from .decoding import Decoded, Job, decode
from .lab import Lab
from .steps import Runs
from .traffic import Traffic


@dataclass(frozen=True)
class Draft:
    """The drafter ``spec`` that drafts ``depth`` tokens by ``plan``; ``head`` as in ``cost.Step``."""

    spec: str
    plan: LayerPlan
    depth: int
    head: bool | int = True

    def exits(self, network: Network) -> bool:
        return self.plan.stop < network.num_layers


@dataclass(frozen=True)
class Outcome:
    """``c``, ``v`` and ``late`` in plain steps; ``tokens_per_second`` drafted; ``mean_accepted`` is M.

    ``speedup`` is without the prompt and the first cycle; ``whole`` is that of whole texts, as rivals are timed.
    """

    speedup: Estimate
    whole: Estimate
    share: Estimate
    c: float
    v: float
    late: float
    mean_accepted: float
    tokens_per_second: float

    def to_json(self) -> dict[str, float]:
        return {
            "speedup": self.speedup.value,
            "speedup_whole": self.whole.value,
            "model_share": self.share.value,
            "c": self.c,
            "v": self.v,
            "late": self.late,
            "mean_accepted": self.mean_accepted,
            "tokens_per_second": self.tokens_per_second,
        }


def compare(network: Network, draft: Draft, prompts: Sequence[Sequence[int]], lab: Lab) -> Outcome:
    """Raises UsageError where the drafter does not exist."""
    effort = lab.effort
    tokens = effort.cycles * (draft.depth + 1)  # whole cycles only
    jobs = [Job(prompt, tokens) for prompt in prompts]
    plain: list[Decoded] = []
    texts: list[Decoded] = []

    def decoded(spec: str, keep: list[Decoded]) -> Callable[[int], float]:
        def arm(number: int) -> float:
            keep.append(decode(network, spec, jobs[number % len(jobs)], lab.clock))
            return keep[-1].per_token

        return arm

    whole = {"plain": decoded("none", plain), "drafted": decoded(draft.spec, texts)}
    for arm in whole.values():
        arm(0)
    plain.clear()
    texts.clear()
    context = sum(len(prompt) for prompt in prompts) // len(prompts) + tokens // 2
    arms = {**whole, **_steps(network, draft, context, lab)}
    taken = interleaved(arms, effort.rounds, lab.clock)
    return _outcome(taken, plain, texts, draft.depth)


def _steps(network: Network, draft: Draft, context: int, lab: Lab) -> Mapping[str, Callable[[int], float]]:
    """The parts of a cycle, each the median of a few runs."""
    runs = Runs(network, context)
    L, K = network.num_layers, draft.depth
    calls = {"step": runs.step(Step(LayerPlan.full(L), 1)), "draft": runs.chain(draft.plan, K, draft.head)}
    if draft.exits(network):
        calls["late"] = runs.last(draft.plan, K)
        calls["verify"] = runs.step(Step(LayerPlan.rest(draft.plan.stop, L), K + 1))
    else:
        calls["verify"] = runs.step(Step(LayerPlan.full(L), K + 1))
    return {name: _median_of(call, lab) for name, call in calls.items()}


def _median_of(call: Callable[[], object], lab: Lab) -> Callable[[int], float]:
    return lambda number: median(seconds(call, lab.clock) for _ in range(lab.effort.steps))


def _outcome(taken: Samples, plain_texts: Sequence[Decoded], texts: Sequence[Decoded], depth: int) -> Outcome:
    step, draft, verify = taken["step"], taken["draft"], taken["verify"]
    late = taken.get("late", [0.0] * len(step))
    cycle = [sum(parts) for parts in zip(draft, late, verify, strict=True)]
    M = [text.summary.mean_accepted_length for text in texts]
    model = [m * plain / whole for m, plain, whole in zip(M, step, cycle, strict=True)]
    speedup = ratios(taken["plain"], taken["drafted"])
    return Outcome(
        speedup=bootstrap(speedup),
        whole=paired_ratio([text.seconds for text in plain_texts], [text.seconds for text in texts]),
        share=bootstrap(ratios(speedup, model)),
        c=paired_ratio(draft, step).value / depth,
        v=paired_ratio(verify, step).value,
        late=paired_ratio(late, step).value,
        mean_accepted=median(M),
        tokens_per_second=1 / median(taken["drafted"]),
    )


def bound(traffic: Traffic, draft: Draft) -> float:
    """The speed-up that weight bytes alone allow, where every draft is right and nothing else costs anything."""
    L, K = len(traffic.attn), draft.depth
    drafting = K * traffic.of(draft.plan, draft.head)
    if draft.plan.stop == L:
        cycle = drafting + traffic.full
    else:
        rest = LayerPlan.rest(draft.plan.stop, L)
        cycle = drafting + traffic.of(draft.plan, head=False) + traffic.of(rest)
    return (K + 1) * traffic.full / cycle
