"""A real model grown with idle layers at hidden places: how soon the search finds them, and what decoding gains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import mean, median
from typing import Any

from ...calibrate import measure
from ...cost import CostModel, Step
from ...draft.none import NoDrafter
from ...draft.skip import SkipDrafter
from ...hf.prepare import prepare
from ...network import Network
from ...plan import LayerPlan
from ...search.event import Event
from ...search.found import Warm
from ...search.pricing import Pricing
from ...search.sublayer import skipped_by
from ...search.tuner import Tuner
from ...telemetry import Summary
from ..efficiency.lab import Lab
from ..efficiency.part import Absent, Figure, Findings, Part
from ..efficiency.planted_skip import grown
from ..efficiency.steps import Runs
from ..planted import PlantedModel
from ..timing import Estimate, interleaved, paired_ratio, seconds
from . import differences
from .fixed_plan import drafter_of
from .stream import Stream, Told

KIND = "float32"
_ENOUGH = 0.95  # of the best plan's predicted speed
_TEXTS = 12  # to search in, at most
_LEAK = 0.05  # of what an idle layer would do, where it does a little
_LEAKY = "_leaky"


@dataclass(frozen=True)
class Planted:
    """A planted model, packed, with its costs and prompts. ``share``: drafts of the best plan that are accepted."""

    model: PlantedModel
    network: Network
    costs: CostModel
    prompts: Sequence[Sequence[int]]
    share: float = 1.0
    # shares by plan; those of another model's plans are others, so that no copy takes them over
    _accepted: dict[LayerPlan, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def made(cls, lab: Lab, leak: float = 0.0) -> Planted:
        model, _, prompts = grown(lab, leak)
        network = prepare(model.model, KIND).network
        planted = cls(model, network, CostModel(measure(network, lab.effort.calibration_s)), prompts)
        return replace(planted, share=planted.accepted(model.best, lab)) if leak else planted

    def accepted(self, plan: LayerPlan, lab: Lab) -> float:
        """Of single tokens that ``plan`` drafts, over all prompts; decoded once, and 1 where it must be."""
        if self.right(plan):
            return 1.0
        if plan not in self._accepted:
            self._accepted[plan] = self._measured(plan, lab)
        return self._accepted[plan]

    def _measured(self, plan: LayerPlan, lab: Lab) -> float:
        drafter = drafter_of(plan, self.network, depth=1)
        stream, total = Stream(self.network, drafter, None, lab.clock), Summary()
        for prompt in self.prompts:
            for step in stream.decode(prompt, lab.effort.answer).steps:
                total.record(step)
        return total.acceptance_rate

    def right(self, plan: LayerPlan) -> bool:
        """Whether it leaves out only what does nothing."""
        return not self.model.leak and skipped_by(plan) <= skipped_by(self.model.best)

    @property
    def pricing(self) -> Pricing:
        context = sum(map(len, self.prompts)) // len(self.prompts)
        return Pricing(self.costs, self.network.num_layers, 1, context)

    def worth(self, plan: LayerPlan, share: float) -> float:
        """Predicted speed over that of the best plan; ``share``: how much the target would say likewise."""
        return self.pricing.at(plan, 1.0 if self.right(plan) else share) / self.pricing.at(self.model.best, self.share)


def part() -> Part:
    return Part("planted", _figures(""), partial(run, leak=0.0, suffix=""))


def leaky_part() -> Part:
    return Part("leaky", _figures(_LEAKY), partial(run, leak=_LEAK, suffix=_LEAKY))


def _figures(suffix: str) -> tuple[Figure, ...]:
    told = f"idle layers do {_LEAK:.0%} of what they would: " if suffix else ""
    return (
        Figure(f"planted_speedup{suffix}", f"{told}drafted / plain with the plan that was found"),
        Figure(
            f"planted_model_share{suffix}", f"{told}of M / (K·c + v), its parts measured in the same rounds", "≥ 0.9"
        ),
        Figure(f"candidates_to_95_cold{suffix}", f"{told}plans tried until one is worth 95 % of the best", "≤ 40"),
        Figure(f"candidates_to_95_warm{suffix}", f"{told}the same, starting from what an earlier run kept", "≤ 5"),
        differences.figure(f"planted{suffix}"),
    )


def run(lab: Lab, leak: float, suffix: str) -> Findings:
    planted = Planted.made(lab, leak)
    cold, found = searched(planted, lab, None)
    full = LayerPlan.full(planted.network.num_layers)
    warm = (
        Absent("the cold search had found no plan to start from") if found is None else searched(planted, lab, found)[0]
    )
    pair = compared(planted, found or full, lab)
    findings = {
        "planted_speedup": pair.speedup,
        "planted_model_share": pair.speedup.value / pair.predicted,
        "candidates_to_95_cold": cold,
        "candidates_to_95_warm": warm,
        differences.key("planted"): pair.differing,
        "planted_plan": {"found": _named(found or full), "best": _named(planted.model.best)},
        "planted_best_accepted": planted.share,
        "planted_mean_accepted": mean(step.emitted for text in pair.texts for step in text.steps),
        "planted_ms": pair.to_json(),
    }
    return {key + suffix: value for key, value in findings.items()}


def searched(planted: Planted, lab: Lab, warm: LayerPlan | None) -> tuple[int | Absent, LayerPlan | None]:
    """How many plans were tried until one was good enough, and the one in use after a few texts."""
    drafter = SkipDrafter(SkipDrafter.Options(), planted.network)
    tuner = tuner_of(drafter)
    tuner.warm = None if warm is None else Warm(warm, settled=True)
    stream = Stream(planted.network, drafter, planted.costs, lab.clock)
    for number in range(_TEXTS):
        stream.decode(planted.prompts[number % len(planted.prompts)], lab.effort.answer)
        if not tuner.searching:
            break
    tried = tried_until_good(planted, tuner.events, lab)
    said = "no plan was good enough" if isinstance(tried, Absent) else f"{tried} plans tried"
    lab.tell(f"  {said} {'warm' if warm else 'cold'}; search took {tuner.budget.used:.1%} of the time")
    return tried, tuner.plan


def tried_until_good(planted: Planted, events: Iterable[Event], lab: Lab) -> int | Absent:
    """Trials in a search's diary until a plan was taken up that is nearly as good as the best."""
    tried = 0
    for event in events:
        tried += event.what == "trial"
        if event.what == "adopted" and event.plan is not None and _good(planted, event.plan, lab):
            return tried
    return Absent("no plan tried was worth 95 % of the best" if tried else "no plan was tried at all")


def _good(planted: Planted, plan: LayerPlan, lab: Lab) -> bool:
    """By whole texts, since a single trial may be lucky; those take long, and are decoded only where they matter."""
    return planted.worth(plan, 1.0) >= _ENOUGH and planted.worth(plan, planted.accepted(plan, lab)) >= _ENOUGH


def tuner_of(drafter: SkipDrafter) -> Tuner:
    if drafter.tuned is None:
        raise ValueError("the drafter was given a plan")
    return drafter.tuned.tuner


@dataclass(frozen=True)
class Compared:
    """Seconds a token by round, the drafted texts, and seconds of the parts of a cycle measured beside them.

    ``heads`` are those that the texts were drafted with, ``draft`` is a drafted token's by head.
    """

    plain: list[float]
    drafted: list[float]
    texts: list[Told]
    heads: list[bool | int]
    step: float
    draft: Mapping[bool | int, float]
    verify: float
    depth: int  # that ``verify`` was measured at
    differing: int  # drafted texts that are not those of plain decoding

    @property
    def speedup(self) -> Estimate:
        return paired_ratio(self.plain, self.drafted)

    @property
    def predicted(self) -> float:
        """M · plain / (K·c + v) over all cycles, K as they were."""
        texts = zip(self.texts, self.heads, strict=True)
        cycles = sum(self._cycle(step.drafted, head) for text, head in texts for step in text.steps)
        return sum(text.emitted for text in self.texts) * self.step / cycles

    def _cycle(self, drafted: int, head: bool | int) -> float:
        return drafted * self.draft[head] + self.step + (self.verify - self.step) * drafted / self.depth

    def to_json(self) -> dict[str, Any]:
        """Milliseconds of the parts, alone and as the records of decoding have them, where any loss must show."""
        steps = [step for text in self.texts for step in text.steps]
        drafted = sum(step.drafted for step in steps)
        timings = [step.timing for step in steps if step.drafted]
        return {
            "step": 1e3 * self.step,
            "draft": {_head(head): 1e3 * draft for head, draft in self.draft.items()},
            "decoding_heads": dict(Counter(map(_head, self.heads))),
            "verify": 1e3 * self.verify,
            "verify_drafted": self.depth,
            "decoding_drafted": drafted / len(steps),
            "decoding_draft": 1e3 * sum(timing.draft_s for timing in timings) / max(drafted, 1),
            "decoding_verify": _mean_ms([timing.verify_s for timing in timings]),
            "decoding_search": _mean_ms([timing.search_s for timing in timings]),
            "decoding_other": _mean_ms([timing.other_s for timing in timings]),
        }


def compared(planted: Planted, plan: LayerPlan, lab: Lab) -> Compared:
    """The search's last word, drafting, against plain decoding."""
    drafter = SkipDrafter(SkipDrafter.Options(), planted.network)
    tuner_of(drafter).warm = Warm(plan, settled=True)
    streams = {
        "plain": Stream(planted.network, NoDrafter(NoDrafter.Options(), planted.network), None, lab.clock),
        "drafted": Stream(planted.network, drafter, planted.costs, lab.clock),
    }
    told: dict[str, list[Told]] = {name: [] for name in streams}
    heads: list[bool | int] = []

    def arm(name: str, number: int) -> float:
        told[name].append(streams[name].decode(planted.prompts[number % len(planted.prompts)], lab.effort.answer))
        if name == "drafted":
            heads.append(drafter.head.step_head)
        return told[name][-1].per_token

    for name in streams:
        arm(name, 0)
        arm(name, 1)  # the first draft of all is a careful one
    warming = len(heads)
    depth = max(1, round(median(step.drafted for step in told["drafted"][-1].steps)))
    arms = {name: partial(arm, name) for name in streams}
    runs = Runs(planted.network, planted.pricing.context + lab.effort.answer // 2)
    full = LayerPlan.full(planted.network.num_layers)
    calls = {"step": runs.step(Step(full, 1)), "verify": runs.step(Step(full, depth + 1))}
    calls |= {_head(head): runs.chain(plan, depth, head) for head in (True, drafter.head.size)}
    arms |= {name: partial(_median_ms, call, lab) for name, call in calls.items()}
    taken = interleaved(arms, lab.effort.rounds, lab.clock)
    step, verify = median(taken["step"]), median(taken["verify"])
    draft = {head: median(taken[_head(head)]) / depth for head in (True, drafter.head.size)}
    texts, differing = told["drafted"][warming:], differences.differing(told["plain"], told["drafted"])
    return Compared(taken["plain"], taken["drafted"], texts, heads[warming:], step, draft, verify, depth, differing)


def _mean_ms(taken: Sequence[float]) -> float | None:
    """None where no plan was found, so that nothing was drafted."""
    return 1e3 * mean(taken) if taken else None


def _head(head: bool | int) -> str:
    return "draft, whole head" if head is True else f"draft, head of {head}"


def _median_ms(call: Callable[[], object], lab: Lab, _: int) -> float:
    return median(seconds(call, lab.clock) for _ in range(lab.effort.steps))


def _named(plan: LayerPlan) -> dict[str, list[int]]:
    return {"attn": sorted(plan.skip_attn), "mlp": sorted(plan.skip_mlp)}
