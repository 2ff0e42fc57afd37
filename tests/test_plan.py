"""Which sublayers run."""

import pytest

from skipstone.errors import PlanError
from skipstone.plan import LayerPlan


def _runs(plan: LayerPlan, layers: int) -> list[str]:
    """A letter for each sublayer that runs, layer by layer."""
    return ["a" * plan.runs_attn(layer) + "m" * plan.runs_mlp(layer) for layer in range(layers)]


@pytest.mark.parametrize(
    ("plan", "runs"),
    [
        (LayerPlan.full(3), ["am", "am", "am"]),
        (LayerPlan.until(1), ["am", "", ""]),
        (LayerPlan.until(0), ["", "", ""]),
        (LayerPlan.rest(1, 3), ["", "am", "am"]),
        (LayerPlan.skipping(3, attn=[0, 2], mlp=[2]), ["m", "am", ""]),
    ],
)
def test_a_plan_runs_the_sublayers_it_names(plan: LayerPlan, runs: list[str]):
    assert _runs(plan, 3) == runs


def test_the_uniform_plan_skips_every_other_layer_but_never_the_first_or_last():
    assert _runs(LayerPlan.uniform(6), 6) == ["am", "", "am", "", "am", "am"]
    assert _runs(LayerPlan.uniform(5), 5) == ["am", "", "am", "", "am"]
    assert LayerPlan.uniform(2) == LayerPlan.full(2)


def test_equal_plans_are_one_key():
    assert len({LayerPlan.skipping(4, [1, 2]), LayerPlan.skipping(4, (2, 1)), LayerPlan.full(4)}) == 2


@pytest.mark.parametrize("bounds", [(-1, 2), (3, 2)])
def test_bounds_out_of_order_are_refused(bounds: tuple[int, int]):
    with pytest.raises(PlanError, match="start must be"):
        LayerPlan(*bounds)


def test_skipping_a_layer_that_does_not_run_is_refused():
    with pytest.raises(PlanError, match=r"skips layer 3, but runs layers 0\.\.2"):
        LayerPlan.skipping(3, mlp=[3])


def test_a_plan_of_more_layers_than_the_network_has_is_refused():
    LayerPlan.full(4).check(4)
    with pytest.raises(PlanError, match=r"up to layer 4, but the model has layers 0\.\.3"):
        LayerPlan.until(5).check(4)
