"""Measuring finds what steps cost, within its budget, and leaves nothing behind."""

import random
import statistics

import pytest
import torch
from costly import CostlyNetwork, known_ms
from hypothesis import given
from hypothesis import strategies as st

from skipstone.calibrate import measure
from skipstone.cost import Step
from skipstone.plan import LayerPlan
from skipstone.probes import Grid, cost_table
from skipstone.testing.tiny import tiny_network


def any_step(rng, layers, rows=(1,)):
    some = [layer for layer in range(layers) if rng.random() < 0.5], [x for x in range(layers) if rng.random() < 0.5]
    exit_layer = rng.randrange(2, layers - 2)
    plans = [
        LayerPlan.full(layers),
        LayerPlan.skipping(layers, *some),
        LayerPlan.until(exit_layer),
        LayerPlan.rest(exit_layer, layers),
    ]
    context = round(64 * 32 ** rng.random())
    return Step(rng.choice(plans), rng.randint(1, 16), rng.choice(rows), context, rng.choice([True, False, 400, 2000]))


def errors(network, table, rows=(1,)):
    rng = random.Random(0)
    steps = [any_step(rng, network.num_layers, rows) for _ in range(200)]
    known = [network.slowness * known_ms(step, network.num_layers, network.vocab_size) for step in steps]
    return sorted(abs(table.ms(step) / ms - 1) for step, ms in zip(steps, known, strict=True))


def test_known_costs_are_found():
    network = CostlyNetwork()
    off = errors(network, measure(network, clock=network.clock))
    assert statistics.median(off) < 0.03
    assert off[-1] < 0.12


def test_known_costs_of_several_rows_are_found():
    network = CostlyNetwork()
    off = errors(network, measure(network, clock=network.clock), rows=(2, 3, 4))
    assert statistics.median(off) < 0.04


@pytest.mark.parametrize("plan", [LayerPlan.skipping(30, attn=range(30)), LayerPlan.skipping(30, mlp=range(30))])
@pytest.mark.parametrize("nodes", [1, 3, 16])
def test_attention_and_mlp_are_told_apart(plan, nodes):
    network = CostlyNetwork()
    step = Step(plan, nodes, context=300)
    assert measure(network, clock=network.clock).ms(step) == pytest.approx(known_ms(step, 30, 4800), rel=0.06)


def test_how_far_times_spread_tells_a_busy_machine_from_a_quiet_one():
    network = CostlyNetwork()
    assert measure(network, clock=network.clock).spread == pytest.approx(1.0)
    network.disturb = lambda call: 2.0 if call % 3 else 1.0
    assert measure(network, clock=network.clock).spread > 1.5


@given(st.integers(0, 2**32))
def test_a_busy_machine_does_not_spoil_the_measurement(seed):
    rng = random.Random(seed)
    network = CostlyNetwork(disturb=lambda call: rng.uniform(2, 5) if rng.random() < 0.15 else rng.gauss(1, 0.02))
    assert statistics.median(errors(network, measure(network, clock=network.clock))) < 0.1


@given(st.integers(0, 2**32))
def test_whatever_times_a_busy_machine_shows_there_is_a_table(seed):
    rng = random.Random(seed)
    grid = Grid.fitting(30, 4800, 4096)
    first, *others = [probe for level in grid.levels() for probe in level]
    ms = {probe: 10 ** rng.uniform(-1, 2) for probe in (first, *(p for p in others if rng.random() < 0.8))}
    table = cost_table(grid, ms)
    for nodes in (1, 7, 32, 40):
        assert table.ms(Step(LayerPlan.skipping(30, attn=range(30)), nodes)) >= 0


@pytest.mark.parametrize(("slowness", "error"), [(1, 0.03), (4, 0.05), (20, 0.1)])
def test_a_slower_network_is_measured_at_fewer_points_within_the_budget(slowness, error):
    network = CostlyNetwork(slowness=slowness)
    table = measure(network, 2.0, network.clock)
    assert network.now <= 2.0
    assert statistics.median(errors(network, table)) < error


def test_a_network_slower_than_the_budget_runs_one_step_and_the_rest_is_scaled():
    network = CostlyNetwork(slowness=1000)  # 7 s a step
    table = measure(network, 2.0, network.clock)
    assert network.calls == 2  # the hidden states, the step
    assert table.ms(Step(LayerPlan.full(30), 1, context=64, head=False)) == pytest.approx(
        1000 * known_ms(Step(LayerPlan.full(30), 1, context=64, head=False), 30, 4800)
    )
    assert table.ms(Step(LayerPlan.until(15), 1)) < table.ms(Step(LayerPlan.full(30), 1))


def test_a_fast_network_does_not_use_up_the_budget():
    network = CostlyNetwork(slowness=1e-3)
    measure(network, 2.0, network.clock)
    assert network.now < 0.1


@pytest.mark.parametrize("context", [1, 2, 3, 40, 100, 600])
def test_a_network_of_few_tokens_is_never_asked_for_more(context):
    network = CostlyNetwork(context=context, vocab_size=5)
    table = measure(network, clock=network.clock)  # the network checks positions and token ids
    assert table.ms(Step(LayerPlan.full(30), 1, context=1)) > 0


def test_the_same_times_give_the_same_table():
    first, second = CostlyNetwork(), CostlyNetwork()
    assert measure(first, clock=first.clock) == measure(second, clock=second.clock)


def test_a_real_network_is_measured_and_global_state_stays():
    network = tiny_network()
    torch.manual_seed(7)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    table = measure(network, 0.3)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    assert table.layers == 4
    assert table.ms(Step(LayerPlan.full(4), 1)) > table.ms(Step(LayerPlan.skipping(4, range(4), range(4)), 1)) > 0
