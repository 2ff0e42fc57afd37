"""Which exits have a loss at which step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipstone.errors import PlanError, UsageError
from skipstone.train import Curriculum, Fixed, Gradual, Rotational

layer_counts = st.integers(2, 40)


def test_with_four_layers_the_rotation_is_that_worked_out_by_hand():
    assert [sorted(Rotational(4, 2).on(step)) for step in range(3)] == [[0, 2, 3], [1, 3], [0, 2, 3]]
    assert [sorted(Rotational(4, 3).on(step)) for step in range(4)] == [[0, 3], [1, 3], [2, 3], [0, 3]]
    assert [sorted(Rotational(4, 4).on(step)) for step in range(4)] == [[0, 3], [1, 3], [2, 3], [3]]


def test_with_four_layers_and_sixteen_steps_one_more_layer_opens_every_two_steps():
    opened = [[3], [3], [2, 3], [2, 3], [1, 2, 3], [1, 2, 3], *[[0, 1, 2, 3]] * 10]
    assert [sorted(Gradual(4, 16).on(step)) for step in range(16)] == opened


@given(layer_counts, st.data())
def test_a_rotation_gives_every_layer_but_the_last_one_turn_in_a_period(layers: int, data: st.DataObject):
    period = data.draw(st.integers(1, layers))
    first = data.draw(st.integers(0, 1000))
    turns = [layer for step in range(first, first + period) for layer in Rotational(layers, period).on(step)]
    assert sorted(layer for layer in turns if layer < layers - 1) == list(range(layers - 1))


@given(layer_counts, st.integers(1, 500))
def test_a_gradual_curriculum_never_closes_a_layer_and_has_them_all_by_half_time(layers: int, total: int):
    sizes = [len(Gradual(layers, total).on(step)) for step in range(total)]
    assert sizes[0] == 1
    assert sizes == sorted(sizes)
    assert all(size == layers for size in sizes[-(-total // 2) :])


@given(layer_counts, st.integers(1, 5))
def test_a_gradual_curriculum_opens_a_layer_each_2l_th_of_the_steps(layers: int, every: int):
    gradual = Gradual(layers, 2 * layers * every)
    for step in range(layers * every):
        assert gradual.on(step) == frozenset(range(layers - 1 - step // every, layers))


@given(layer_counts, st.integers(0, 1000))
def test_the_last_layer_is_always_on_and_no_layer_is_invented(layers: int, step: int):
    curricula: list[Curriculum] = [Rotational(layers, layers), Gradual(layers, 7), Fixed(layers, frozenset({2}))]
    for curriculum in curricula:
        assert layers - 1 in curriculum.on(step) <= frozenset(range(layers))


def test_fixed_exits_are_the_outputs_of_the_layers_before_them():
    fixed = Fixed(8, frozenset({2, 5}))
    assert fixed.on(0) == fixed.on(77) == {1, 4, 7}


@pytest.mark.parametrize("period", [0, 5])
def test_a_period_that_does_not_fit_the_model_is_refused(period: int):
    with pytest.raises(UsageError, match="a period from 1 to 4"):
        Rotational(4, period)


@pytest.mark.parametrize("exit_layer", [-1, 0, 1, 5])
def test_exits_out_of_range_are_refused(exit_layer: int):
    with pytest.raises(PlanError, match=f"exit {exit_layer} .* 4 layers"):
        Fixed(4, frozenset({3, exit_layer}))


def test_curricula_without_steps_or_layers_are_refused():
    with pytest.raises(UsageError, match="over 0 steps"):
        Gradual(4, 0)
    with pytest.raises(UsageError, match="over 1 layers"):
        Rotational(1, 1)
