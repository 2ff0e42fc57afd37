"""Timing: arms take turns, pairs are compared, and the same samples give the same interval."""

from __future__ import annotations

import pytest

from skipstone.bench.timing import Rounds, bootstrap, interleaved, paired_ratio, ratios, seconds, timed
from skipstone.errors import UsageError


class Clock:
    """Stands still but for what is done."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


def test_arms_take_turns_and_every_other_round_goes_backwards() -> None:
    order: list[str] = []
    arms = {name: lambda number, name=name: order.append(f"{name}{number}") or 1.0 for name in "abc"}
    assert interleaved(arms, Rounds(3), Clock()) == {name: [1.0] * 3 for name in "abc"}
    assert order == ["a0", "b0", "c0", "c1", "b1", "a1", "a2", "b2", "c2"]


def test_no_round_begins_that_would_end_after_the_budget() -> None:
    clock = Clock()
    arms = {"a": lambda number: clock.spend(3) or 3.0}
    assert len(interleaved(arms, Rounds(9, budget_s=10), clock)["a"]) == 3
    assert len(interleaved(arms, Rounds(9, budget_s=10, fewest=5), clock)["a"]) == 5
    assert len(interleaved(arms, Rounds(2, budget_s=10), clock)["a"]) == 2


def test_calls_are_timed_after_a_warm_up() -> None:
    clock = Clock()
    slow_once = iter([100.0, 1.0, 1.0])
    taken = timed({"a": lambda: clock.spend(next(slow_once))}, Rounds(2), clock)
    assert taken == {"a": [1.0, 1.0]}
    assert seconds(lambda: clock.spend(2), clock) == 2


def test_a_round_that_is_slow_for_both_arms_does_not_move_the_ratio() -> None:
    drift = [1.0, 5.0, 2.0, 1.0, 9.0]
    estimate = paired_ratio([3 * d for d in drift], [1.5 * d for d in drift])
    assert (estimate.value, estimate.low, estimate.high, estimate.count) == (2, 2, 2, 5)
    assert ratios([4, 9], [2, 3]) == [2, 3]


def test_the_interval_holds_the_median_and_is_the_same_each_time() -> None:
    samples = [1.0, 1.2, 1.1, 1.4, 1.0, 1.3, 1.1]
    estimate = bootstrap(samples)
    assert estimate == bootstrap(samples)
    assert estimate.value == 1.1
    assert 1.0 <= estimate.low <= 1.1 <= estimate.high <= 1.4
    assert estimate.interval == [estimate.low, estimate.high]


def test_nothing_cannot_be_measured() -> None:
    with pytest.raises(UsageError, match="no samples"):
        bootstrap([])
    with pytest.raises(UsageError, match="1 to 0 rounds"):
        Rounds(0)
