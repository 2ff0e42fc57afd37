"""LayerSkip: the early layers' work is done once."""

from collections import defaultdict
from contextlib import ExitStack

import pytest
from decoding import network

from skipstone.draft.exit import ExitDrafter
from skipstone.engine import Engine
from skipstone.errors import PlanError, UsageError
from skipstone.plan import LayerPlan
from skipstone.request import Request
from skipstone.testing import check_drafter, tiny_network


def _nodes_by_layer(engine: Engine) -> dict[int, list[int]]:
    """The nodes of every call of every attention during one step."""
    calls: dict[int, list[int]] = defaultdict(list)
    with ExitStack() as stack:
        for index, layer in enumerate(engine.network.layers):
            count = lambda module, args, kwargs, index=index: calls[index].append(args[0].shape[1])  # noqa: E731
            stack.enter_context(layer.self_attn.register_forward_pre_hook(count, with_kwargs=True))
        engine.step()
    return calls


@pytest.mark.parametrize("layer", [1, 2, 3])
@pytest.mark.parametrize(("depth", "width"), [(1, 1), (4, 1), (3, 3)])
def test_early_layers_see_every_node_once_a_cycle_and_late_layers_all_at_once(layer: int, depth: int, width: int):
    net = network()
    engine = Engine(net, ExitDrafter(ExitDrafter.Options(layer, depth, width), net), capacity=30)
    engine.admit(Request([5], 20))
    nodes = 1 + depth * width
    for _ in range(2):
        calls = _nodes_by_layer(engine)
        for early in range(layer):
            assert calls[early] == [1] * depth + [nodes - depth]
        for late in range(layer, net.num_layers):
            assert calls[late] == [nodes]


@pytest.mark.parametrize(("layer", "depth", "width"), [(1, 4, 1), (3, 2, 3), (2, 30, 2)])
def test_it_keeps_the_contract(layer: int, depth: int, width: int):
    check_drafter(lambda net: ExitDrafter(ExitDrafter.Options(layer, depth, width), net))


def test_it_exits_after_a_quarter_of_the_layers_unless_told():
    assert ExitDrafter(ExitDrafter.Options(), tiny_network(layers=9)).plan == LayerPlan.until(2)
    assert ExitDrafter(ExitDrafter.Options(), tiny_network(layers=2)).plan == LayerPlan.until(1)


@pytest.mark.parametrize("options", [{"layer": -1}, {"depth": 0}, {"width": 0}])
def test_options_out_of_range_are_refused(options: dict[str, int]):
    with pytest.raises(UsageError, match="exit:"):
        ExitDrafter.Options(**options)


@pytest.mark.parametrize("layers", [1, 4])
def test_an_exit_that_leaves_nothing_to_verify_with_is_refused(layers: int):
    with pytest.raises(PlanError, match=f"the model has {layers} layers"):
        ExitDrafter(ExitDrafter.Options(layer=layers), tiny_network(layers=layers))
