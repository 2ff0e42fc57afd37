"""A search without a model: plans of known acceptance, seen through windows of few tokens, on a simulated clock."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from skipstone.plan import LayerPlan
from skipstone.search.pricing import Costs, Pricing, Uniform
from skipstone.search.searcher import Searcher
from skipstone.search.sublayer import Sublayer, skipped_by
from skipstone.search.tuner import Tuner
from skipstone.search.tuner_options import TunerOptions
from skipstone.telemetry import StepRecord, Timing


@dataclass
class Objective:
    """``missed[part]``: the share of tokens that go wrong without a sublayer; each part does so on its own."""

    layers: int
    missed: Mapping[Sublayer, float]
    chance: random.Random
    blur: float = 0.5  # of the ranking by single sublayers, as a spread of the logarithm

    @classmethod
    def drawn(cls, layers: int, seed: int) -> Objective:
        chance = random.Random(seed)
        parts = [Sublayer(layer, kind) for layer in range(1, layers - 1) for kind in ("attn", "mlp")]
        return cls(layers, {part: 10 ** chance.uniform(-3.5, -0.5) for part in parts}, chance)

    def acceptance(self, plan: LayerPlan) -> float:
        share = 1.0
        for part in skipped_by(plan):
            share *= 1 - self.missed[part]
        return share

    def hits(self, plan: LayerPlan, of: int) -> int:
        acceptance = self.acceptance(plan)
        return sum(self.chance.random() < acceptance for _ in range(of))

    def disturbance(self, plan: LayerPlan) -> dict[Sublayer, float]:
        left = [part for part in self.missed if part not in skipped_by(plan)]
        return {part: self.missed[part] * 10 ** self.chance.gauss(0, self.blur) for part in left}

    def speed(self, plan: LayerPlan | None) -> float:
        """Over plain decoding, by what is true of the plan; 1 for none."""
        if plan is None:
            return 1.0
        acceptance = self.acceptance(plan)
        return max(Pricing(Uniform(self.layers), self.layers, 1, 100).forecast(plan, lambda _: acceptance).speed, 1.0)


@dataclass
class Simulation:
    """A tuner at work on one text that goes on and on; a plain step takes as long as its parts cost."""

    objective: Objective
    tuner: Tuner
    text: list[int] = field(default_factory=lambda: [0] * 8)
    costs: Costs | None = None  # None: ``Uniform``

    @classmethod
    def of(
        cls,
        patch: pytest.MonkeyPatch,
        objective: Objective,
        searcher: Searcher,
    ) -> Simulation:
        patch.setattr("skipstone.search.tuner.replay", lambda state, window, plan: objective.hits(plan, len(window)))
        patch.setattr("skipstone.search.ranking.disturbances", lambda state, window, plan: objective.disturbance(plan))
        options = TunerOptions(share=1.0, loan=10_000)  # a trial before every step
        return cls(objective, Tuner(objective.layers, lambda: searcher, options, clock=lambda: 0.0))

    def state(self) -> Any:
        cache, limits = SimpleNamespace(prompt_lengths=[4]), SimpleNamespace(nodes=64)
        costs = self.costs or Uniform(self.objective.layers)
        return SimpleNamespace(rows=(0,), history=(self.text,), cache=cache, limits=limits, costs=costs)

    def step(self) -> None:
        """A trial where one is due, a draft where one pays, and what became of it."""
        state = self.state()
        self.tuner.work(state, {})
        choice = self.tuner.choose(state)
        drafted = accepted = 0
        plan = None if choice is None else choice.plan
        if choice is not None:
            acceptance, drafted = self.objective.acceptance(choice.plan), choice.depth
            while accepted < drafted and self.objective.chance.random() < acceptance:
                accepted += 1
        self.text += [0] * (accepted + 1)
        self.tuner.observe(StepRecord(0, drafted, drafted, accepted, 0, accepted + 1, Timing(verify_s=1.0)), plan)

    def trials(self) -> int:
        return sum(event.what == "trial" for event in self.tuner.events)

    def run(self, trials: int, steps: int = 3000) -> Simulation:
        while self.trials() < trials and steps and not (self.tuner.plan and not self.tuner.searching):
            self.step()
            steps -= 1
        return self


@dataclass
class Listed:
    """A searcher that asks for given plans, one after the other."""

    plans: Sequence[LayerPlan]
    asked: int = 0

    def ask(self, signals: object) -> LayerPlan | None:
        self.asked += 1
        return self.plans[self.asked - 1] if self.asked <= len(self.plans) else None

    def tell(self, trial: object) -> None:
        pass
