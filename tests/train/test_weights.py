"""How much each exit counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipstone.errors import PlanError, UsageError
from skipstone.train import ExitWeights


def test_with_four_layers_weights_are_those_worked_out_by_hand():
    weights = ExitWeights(4, 0.2)
    assert [weights.raw(layer) for layer in range(4)] == pytest.approx([0.0, 0.2, 0.6, 3 + 0.2 * 3])
    assert weights.normalised({0, 2, 3}) == pytest.approx({0: 0.0, 2: 0.6 / 4.2, 3: 3.6 / 4.2})
    assert weights.normalised({1, 3}) == pytest.approx({1: 0.2 / 3.8, 3: 3.6 / 3.8})
    assert weights.normalised({3}) == {3: 1.0}


@given(st.integers(2, 40), st.floats(0, 10), st.data())
def test_weights_sum_to_one_and_rise_with_the_layer(layers: int, scale: float, data: st.DataObject):
    on = data.draw(st.sets(st.integers(0, layers - 1))) | {layers - 1}
    weights = ExitWeights(layers, scale).normalised(on)
    assert sum(weights.values()) == pytest.approx(1)
    assert list(weights) == sorted(on)
    assert list(weights.values()) == sorted(weights.values())


def test_a_share_goes_to_exits_whatever_the_scale():
    assert ExitWeights(4, 0.0, share=0.5).normalised({1, 3}) == {1: 0.5, 3: 0.5}


def test_a_scale_of_zero_leaves_the_last_layer_alone():
    assert ExitWeights(4, 0).normalised(range(4)) == {0: 0, 1: 0, 2: 0, 3: 1}


@pytest.mark.parametrize("scale", [-0.1, float("nan"), float("inf")])
def test_scales_that_make_no_sense_are_refused(scale: float):
    with pytest.raises(UsageError, match=f"scale of {scale}"):
        ExitWeights(4, scale)


def test_exits_outside_the_model_or_without_the_last_layer_are_refused():
    with pytest.raises(PlanError, match=r"layer 4 .* 0\.\.3"):
        ExitWeights(4, 0.1).normalised({3, 4})
    with pytest.raises(UsageError, match="the last layer, 3,"):
        ExitWeights(4, 0.1).normalised({1, 2})
    with pytest.raises(UsageError, match="1 layers"):
        ExitWeights(1, 0.1)
