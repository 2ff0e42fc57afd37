"""LayerSkip: the early layers' work is done once."""

from collections import defaultdict
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from decoding import network

from skipstone.draft.exit import ExitDrafter
from skipstone.engine import Engine
from skipstone.errors import PlanError, UsageError
from skipstone.kernels.exact import ExactNetwork
from skipstone.network import Network
from skipstone.request import Request
from skipstone.search.pace import Expected
from skipstone.telemetry import StepRecord, Timing
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


@pytest.mark.parametrize("more", [{}, {"depth": 3, "width": 2}, {"head": "40", "width": 1}])
@pytest.mark.parametrize("trained", [[], [2], [1, 3]])
def test_choosing_exits_by_itself_it_keeps_the_contract(trained: list[int], more: dict[str, Any]):
    def made(net: Network) -> ExitDrafter:
        drafter = ExitDrafter(ExitDrafter.Options(window=4, budget=1.0, **more), net)
        drafter.trained_for(trained)
        return drafter

    check_drafter(made)


def test_with_a_layer_given_it_drafts_four_tokens_of_one_choice():
    drafter = ExitDrafter(ExitDrafter.Options(layer=2), network())
    engine = Engine(drafter.head.network, drafter, capacity=40)
    engine.admit(Request([5], 20))
    assert engine.step()[0].record.nodes == 4


@pytest.mark.parametrize("options", [{"layer": -1}, {"depth": -1}, {"width": -1}, {"budget": 0.0}, {"window": 1}])
def test_options_out_of_range_are_refused(options: dict[str, Any]):
    with pytest.raises(UsageError, match="use"):
        ExitDrafter.Options(**options)


@pytest.mark.parametrize("layers", [1, 4])
def test_an_exit_that_leaves_nothing_to_verify_with_is_refused(layers: int):
    with pytest.raises(PlanError, match=f"the model has {layers} layers"):
        ExitDrafter(ExitDrafter.Options(layer=layers), tiny_network(layers=layers))


def _drafted(net: Network, options: ExitDrafter.Options, more: int = 30) -> list[StepRecord]:
    drafter = ExitDrafter(options, net)
    drafter.trained_for([2])
    summary: list[StepRecord] = []
    sink = SimpleNamespace(record=summary.append)
    engine = Engine(net, drafter, capacity=100, sinks=[sink])
    engine.admit(Request([5, 9], more))
    while engine.busy:
        engine.step()
    return summary


def test_depth_alone_is_limited_by_depth_and_width_by_width():
    net = tiny_network(agreeing=0.5)
    one_deep = _drafted(net, ExitDrafter.Options(depth=1, width=4))
    assert max(record.drafted for record in one_deep) == 1
    assert max(record.nodes for record in one_deep) > 1
    chains = _drafted(net, ExitDrafter.Options(width=1))
    assert all(record.nodes == record.drafted for record in chains)


def test_where_every_last_bit_counts_no_siblings_are_drafted_unless_asked_for():
    net = ExactNetwork(tiny_network(agreeing=0.5))
    assert all(record.nodes == record.drafted for record in _drafted(net, ExitDrafter.Options()))
    assert any(record.nodes > record.drafted for record in _drafted(net, ExitDrafter.Options(width=3)))


def test_a_draft_that_was_thrown_away_counts_as_wrong():
    """Where a token holds no numbers, whoever drafts it drafts in vain, again and again unless that is learnt."""
    net = tiny_network(agreeing=0.6)
    drafter = ExitDrafter(ExitDrafter.Options(), net)
    drafter.trained_for([2])
    sights = drafter.dynamic.finder._of(2)
    before = sights.agreement.share
    drafter.dynamic.untold[0] = sights
    drafter.observe(StepRecord(0, 0, 0, 0, 0, 1, Timing()))
    assert sights.agreement.share < before


def test_cycles_that_take_longer_than_their_prices_count_as_worth_less():
    net = tiny_network(agreeing=0.6)
    drafter = ExitDrafter(ExitDrafter.Options(), net)
    for _ in range(200):
        drafter.dynamic.expected[0] = Expected(10.0, 1.0)
        drafter.observe(StepRecord(0, 1, 1, 1, 0, 2, Timing(draft_s=0.005, verify_s=0.008)))
    assert drafter.dynamic.finder.pace.slower == pytest.approx(1.3, abs=0.03)
