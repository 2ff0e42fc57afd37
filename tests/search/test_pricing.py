"""What a plan is worth, and how seldom that has to be added up anew."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest
from simulated import Listed, Objective, Simulation

from skipstone.cost import Step
from skipstone.plan import LayerPlan
from skipstone.search.pricing import PriceList, Pricing, Uniform
from skipstone.search.sublayer import Sublayer, plan_without

LAYERS = 16
IDLE = [Sublayer(layer, "mlp") for layer in range(1, 10)]
PLAN = plan_without(LAYERS, IDLE)


@dataclass
class Counted:
    """Uniform costs, and how often anybody asked."""

    asked: int = 0

    def ms(self, step: Step) -> float:
        self.asked += 1
        return Uniform(LAYERS).ms(step)


def _pricing(context: int = 100, rows: int = 1) -> Pricing:
    return Pricing(Uniform(LAYERS), LAYERS, rows, context)


def test_a_step_hardly_ever_asks_what_steps_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [Sublayer(layer, kind) for layer in range(1, LAYERS - 1) for kind in ("attn", "mlp")]
    objective = Objective(LAYERS, dict.fromkeys(parts, 0.4) | dict.fromkeys(IDLE, 0.0), random.Random(0))
    costs = Counted()
    sim = Simulation.of(monkeypatch, objective, Listed([PLAN]))
    sim.costs = costs
    sim.run(2)
    assert sim.tuner.plan == PLAN
    costs.asked, before = 0, len(sim.text)
    for _ in range(100):
        sim.step()
    assert costs.asked <= 20 * (1 + (len(sim.text) - before) / 128)


def test_what_cycles_take_over_their_price_and_further_choices_make_a_plan_worth_less() -> None:
    plain, slow = _pricing(), replace(_pricing(), slower=1.25)
    assert slow.at(PLAN, 0.9) == pytest.approx(plain.at(PLAN, 0.9) / 1.25)
    wide = replace(_pricing(), width=3)
    assert wide.verify(2) == plain.verify(6)


class _Disturbed:
    """Times by which several nodes take less than one."""

    def ms(self, step: Step) -> float:
        return 10.0 if step.tokens == 1 and not step.plan.skip_mlp else 1.0


def test_no_plan_is_worth_more_than_its_tokens_however_times_were_disturbed() -> None:
    pricing = Pricing(_Disturbed(), LAYERS, 1, 100)
    assert pricing.at(PLAN, 0.22) < 1 + 0.22 + 0.22**2 / (1 - 0.22)


def test_prices_are_looked_up_again_after_a_while_and_where_something_else_is_asked() -> None:
    prices = PriceList()
    first = prices.at(_pricing(), tokens=0)
    assert prices.at(_pricing(context=110), tokens=10) is first
    assert prices.at(_pricing(context=101), tokens=128) is not first
    for other in (_pricing(rows=2), _pricing(context=300), _pricing()):
        assert prices.at(other, tokens=129) is other


def test_a_forecast_is_tokens_of_a_cycle_over_its_time_at_the_best_depth() -> None:
    pricing = _pricing()
    found = pricing.forecast(PLAN, lambda _: 0.9)

    def speed(depth: int) -> float:
        tokens = sum(0.9**accepted for accepted in range(depth + 1))
        return tokens * pricing.plain / (depth * pricing.draft(PLAN) + pricing.verify(depth))

    assert found.speed == pytest.approx(max(map(speed, range(1, 17))))
    assert found.speed == pytest.approx(speed(found.depth))
    assert pricing.forecast(LayerPlan.full(LAYERS), lambda _: 0.1).depth == 0
