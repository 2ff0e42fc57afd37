"""A factor follows the machine, and not its hiccups."""

import random
import sys
from collections.abc import Callable
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipstone.correction import Correction
from skipstone.errors import UsageError


def test_nothing_observed_corrects_nothing():
    assert Correction().factor(1) == 1.0


@given(st.floats(0.2, 5.0), st.integers(0, 2**32))
def test_a_lasting_change_is_learnt_although_one_in_five_is_an_outlier(factor, seed):
    rng = random.Random(seed)
    correction = Correction()
    for _ in range(60):
        hiccup = rng.uniform(2, 20) if rng.random() < 0.2 else 1.0
        correction.add(1, factor * rng.gauss(1, 0.02) * hiccup)
    assert correction.factor(1) == pytest.approx(factor, rel=0.06)


@given(st.lists(st.floats(1e-3, 1e3), max_size=2))
def test_two_observations_change_nothing_for_good(ratios):
    correction = Correction()
    for ratio in ratios:
        correction.add(2, ratio)
    assert correction.factor(1) == 1.0


def test_a_change_of_the_machine_is_followed_within_forty_steps():
    correction = Correction()
    for ratio in [1.0] * 200 + [1.5] * 40:
        correction.add(1, ratio)
    assert correction.factor(1) == pytest.approx(1.5, rel=0.02)


def test_a_factor_that_was_asked_for_is_not_the_last_word():
    correction = Correction()
    for _ in range(10):
        correction.add(1, 1.3)
        seen = correction.factor(1)
    assert seen == pytest.approx(1.3)


def test_a_bucket_that_differs_gets_a_factor_of_its_own():
    correction = Correction()
    for _ in range(40):
        correction.add(1, 1.2)
        correction.add(3, 0.9)
        correction.add(1, 1.2)
    assert correction.factor(1) == pytest.approx(1.2, rel=0.05)
    assert correction.factor(3) == pytest.approx(0.9, rel=0.1)
    assert correction.factor(7) == pytest.approx(1.2, rel=0.05)  # never seen: like all


def test_what_it_keeps_is_bounded_and_makes_it_anew():
    correction = Correction()
    for step in range(1000):
        correction.add(step % 3, 1.1 + 0.1 * (step % 7))
    again = Correction(correction.recent)
    assert len(correction.recent) <= 64
    assert [again.factor(bucket) for bucket in range(4)] == [correction.factor(bucket) for bucket in range(4)]


def test_ratios_that_are_not_finite_are_refused():
    with pytest.raises(UsageError, match="finite"):
        Correction([(1, float("nan"))])


def test_threads_may_learn_and_ask_at_once() -> None:
    correction, failures = Correction(), []

    def use(call: Callable[[], object]) -> None:
        try:
            for _ in range(3000):
                call()
        except Exception as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        calls = [lambda: correction.add(1, 1.1), lambda: correction.factor(1), lambda: correction.recent]
        threads = [Thread(target=use, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failures == []
