"""When acceptance falls, that is noticed within a few tokens; where it only varies, nothing is."""

from __future__ import annotations

import random

import pytest

from skipstone.search.drift import Drift
from skipstone.search.pricing import Pricing, Uniform
from skipstone.search.sublayer import Sublayer, plan_without


def _drift(usual: float, gone: float) -> Drift:
    drift = Drift.from_share(usual, 32)
    drift.gone = gone
    return drift


def _until_found(drift: Drift, share: float, chance: random.Random, most: int) -> int | None:
    """Judged tokens, one to a draft."""
    for count in range(1, most + 1):
        drift.observe(int(chance.random() < share), 1)
        if drift.found:
            return count
    return None


@pytest.mark.parametrize(("usual", "now", "within"), [(0.97, 0.2, 16), (0.9, 0.1, 20), (0.8, 0.2, 60)])
def test_a_fall_is_found_within_a_few_tokens(usual: float, now: float, within: int) -> None:
    delays = [_until_found(_drift(usual, 0.5), now, random.Random(seed), 200) for seed in range(100)]
    found = sorted(delay for delay in delays if delay is not None)
    assert len(found) == 100
    assert found[89] <= within


@pytest.mark.parametrize("usual", [0.95, 0.8, 0.7])
def test_acceptance_that_stays_what_it_was_is_hardly_ever_taken_for_a_fall(usual: float) -> None:
    found = [_until_found(_drift(usual, 0.5), usual, random.Random(seed), 2000) for seed in range(50)]
    assert sum(each is not None for each in found) <= 2


def test_a_plan_that_was_lucky_and_still_pays_is_kept() -> None:
    found = [_until_found(_drift(0.97, 0.5), 0.7, random.Random(seed), 500) for seed in range(50)]
    assert sum(each is not None for each in found) <= 10


def test_a_plan_that_never_paid_much_is_left_to_its_average() -> None:
    assert _until_found(_drift(0.55, 0.5), 0.0, random.Random(0), 200) is None


def test_where_drafting_stops_to_pay_follows_from_prices() -> None:
    pricing = Pricing(Uniform(16), 16, 1, 100)
    plan = plan_without(16, [Sublayer(layer, "mlp") for layer in range(1, 10)])
    even = pricing.breaks_even(plan)
    assert pricing.at(plan, even + 0.02) > 1 > pricing.at(plan, even - 0.02)
    assert pricing.breaks_even(plan_without(16, [])) == 1.0
