"""Sublayers at random, always as many."""

import pytest

from skipstone.search.random_choice import RandomSearcher
from skipstone.search.searcher import NoSignals
from skipstone.search.sublayer import count_at, searchable, skipped_by


def _asked(searcher: RandomSearcher, times: int = 50) -> list[frozenset[object]]:
    return [skipped_by(searcher.ask(NoSignals())) for _ in range(times)]


@pytest.mark.parametrize(
    ("layers", "ratio", "count"), [(32, 0.45, 27), (30, 0.5, 28), (27, 0.58, 29), (4, 0.45, 1), (3, 0.45, 0)]
)
def test_the_share_left_out_counts_the_sublayers_between_first_and_last_layer(layers: int, ratio: float, count: int):
    assert count_at(layers, ratio) == count


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_a_model_without_layers_between_its_first_and_last_has_none_to_leave_out(layers: int):
    assert count_at(layers, 0.9) == 0


def test_every_plan_leaves_out_the_same_number_of_sublayers():
    plans = _asked(RandomSearcher(12, 9))
    assert {len(gone) for gone in plans} == {9}
    assert set().union(*plans) == set(searchable(12))


def test_the_same_seed_asks_for_the_same_plans():
    assert _asked(RandomSearcher(12, 9, seed=4)) == _asked(RandomSearcher(12, 9, seed=4))
    assert _asked(RandomSearcher(12, 9, seed=4)) != _asked(RandomSearcher(12, 9, seed=5))


def test_no_sublayer_is_liked_better_than_another():
    plans = _asked(RandomSearcher(7, 5), 2000)
    shares = [sum(part in gone for gone in plans) / len(plans) for part in searchable(7)]
    assert all(abs(share - 0.5) < 0.05 for share in shares)
