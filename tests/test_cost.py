"""Steps cost the sum of their parts, and what they really took corrects the sum."""

import dataclasses
import json
import random
import statistics

import pytest
from costly import flat, line
from hypothesis import given
from hypothesis import strategies as st

from skipstone.cost import CostModel, CostTable, Step, expected_tokens, speedup
from skipstone.curve import Curve, Surface
from skipstone.errors import PlanError, UsageError
from skipstone.plan import LayerPlan

L = 6
FULL = LayerPlan.full(L)
SETS = st.frozensets(st.integers(0, L - 1))
PLANS = st.builds(lambda attn, mlp: LayerPlan.skipping(L, attn, mlp), SETS, SETS)
MS = st.floats(0.001, 50)
HEADS = st.one_of(st.booleans(), st.integers(0, 100))
STEPS = st.builds(Step, PLANS, st.integers(1, 40), st.integers(1, 8), st.integers(0, 5000), HEADS)


def rising(at):
    return st.lists(MS, min_size=len(at), max_size=len(at)).map(lambda values: Curve(at, tuple(sorted(values))))


def rising_surfaces(at, inner):
    """Rising both ways: each curve adds to the one before."""

    def add_up(curves):
        sums = [curves[0].values]
        for curve in curves[1:]:
            sums.append(tuple(a + b for a, b in zip(sums[-1], curve.values, strict=True)))
        return Surface(at, tuple(Curve(inner, values) for values in sums))

    return st.lists(rising(inner), min_size=len(at), max_size=len(at)).map(add_up)


TABLES = st.builds(
    CostTable,
    layers=st.just(L),
    vocab_size=st.just(100),
    overhead=rising_surfaces((1, 8), (64, 2048)),
    attention=rising((1, 4, 8, 16)),
    read=rising_surfaces((1, 8), (64, 512, 2048)),
    row=MS,
    mlp=rising((1, 4, 8, 16)),
    head=rising_surfaces((10, 100), (1, 8)),
)
SIMPLE = CostTable(L, 100, flat(1.0), line(1.0, 32.0), flat(0.0), 0.5, line(2.0, 2.0), flat(4.0))


def at_least(more, less):
    return more >= less * (1 - 1e-9) - 1e-9


@given(TABLES, STEPS, st.integers(0, 20), st.integers(0, 4), st.integers(0, 2000))
def test_more_nodes_rows_or_context_never_cost_less(table, step, nodes, rows, context):
    bigger = Step(step.plan, step.nodes + nodes, step.rows + rows, step.context + context, step.head)
    assert at_least(table.ms(bigger), table.ms(step))


@given(TABLES, STEPS, SETS, SETS)
def test_skipping_more_never_costs_more(table, step, attn, mlp):
    fewer = LayerPlan.skipping(L, step.plan.skip_attn | attn, step.plan.skip_mlp | mlp)
    assert at_least(table.ms(step), table.ms(Step(fewer, step.nodes, step.rows, step.context, step.head)))


@given(TABLES, STEPS, st.integers(0, L))
def test_early_layers_and_the_rest_cost_what_all_do_and_one_overhead(table, step, exit_layer):
    def ms(plan):
        return table.ms(Step(plan, step.nodes, step.rows, step.context, head=False))

    overhead = ms(LayerPlan(0, 0))
    assert ms(LayerPlan.until(exit_layer)) + ms(LayerPlan.rest(exit_layer, L)) == pytest.approx(ms(FULL) + overhead)


@given(TABLES, STEPS)
def test_sublayers_add_up(table, step):
    def ms(*plan):
        return table.ms(Step(LayerPlan.skipping(L, *plan), step.nodes, step.rows, step.context, step.head))

    nothing = ms(range(L), range(L))
    attention, mlp = ms((), range(L)) - nothing, ms(range(L), ()) - nothing
    assert ms() == pytest.approx(nothing + attention + mlp)
    assert ms([0], [1, 2]) == pytest.approx(nothing + attention * (L - 1) / L + mlp * (L - 2) / L)


@given(TABLES, st.integers(1, 40), st.integers(1, 100))
def test_a_restricted_head_costs_no_more_than_the_whole_one(table, nodes, entries):
    model = CostModel(table)
    without, some, whole = (model.step_ms(FULL, nodes, head=head) for head in (False, entries, True))
    assert at_least(whole, some)
    assert at_least(some, without)


def test_known_numbers():
    model = CostModel(SIMPLE)
    assert model.step_ms(FULL, 1) == pytest.approx(1 + 6 * 1 + 6 * 2 + 4)
    assert model.step_ms(LayerPlan.until(2), 3, head=False) == pytest.approx(1 + 2 * 3 + 2 * 2)
    assert model.step_ms(LayerPlan.skipping(L, [0], [1, 2, 5]), 1) == pytest.approx(1 + 5 * 1 + 3 * 2 + 4)
    assert model.step_ms(FULL, 2, rows=2) == pytest.approx(1 + 6 * (4 + 0.5) + 6 * 2 + 4)
    assert model.draft_ratio(LayerPlan.until(2)) == pytest.approx(11 / 23)
    assert model.verify_ratio(3) == pytest.approx((1 + 6 * 4 + 6 * 2 + 4) / 23)


@given(TABLES, STEPS, st.integers(0, 2**32))
def test_a_machine_half_as_slow_again_is_learnt_although_one_step_in_five_is_an_outlier(table, step, seed):
    rng = random.Random(seed)
    model = CostModel(table)
    for _ in range(80):
        taken = Step(step.plan, rng.choice([1, 1, 1, 4, 6]), step.rows, rng.randrange(2000), step.head)
        hiccup = rng.uniform(2, 20) if rng.random() < 0.2 else 1.0
        model.observe(taken, 1.5 * table.ms(taken) * rng.gauss(1, 0.02) * hiccup)
    errors = [
        abs(model.step_ms(FULL, nodes) / CostModel(table).step_ms(FULL, nodes) / 1.5 - 1) for nodes in range(1, 9)
    ]
    assert statistics.median(errors) < 0.05
    assert max(errors) < 0.1


@given(STEPS, st.sampled_from([0.0, -1.0, float("nan"), float("inf")]))
def test_times_no_clock_can_have_shown_are_left_out(step, ms):
    model = CostModel(SIMPLE)
    for _ in range(20):
        model.observe(step, ms)
    assert model.ms(step) == SIMPLE.ms(step)


def test_a_time_that_is_nothing_beside_the_predicted_one_is_left_out():
    slow = CostModel(dataclasses.replace(SIMPLE, row=1e300))
    step = Step(FULL, 1, rows=2)
    slow.observe(step, 1e-300)
    assert slow.ms(step) == slow.table.ms(step)
    assert CostModel.from_json(slow.to_json()).ms(step) == slow.ms(step)


@pytest.mark.parametrize("plan", [LayerPlan.full(L + 1), LayerPlan.rest(2, 30)])
def test_a_plan_of_more_layers_than_were_measured_is_refused(plan):
    with pytest.raises(PlanError, match=f"the plan has {plan.stop} layers and these are the costs of {L}"):
        CostModel(SIMPLE).step_ms(plan, 1)


@given(TABLES, st.lists(st.tuples(STEPS, st.floats(0.01, 100)), max_size=10), STEPS)
def test_a_model_survives_json(table, observed, step):
    model = CostModel(table)
    for taken, ms in observed:
        model.observe(taken, ms)
    again = CostModel.from_json(json.loads(json.dumps(model.to_json())))
    assert again.table == table
    assert again.ms(step) == model.ms(step)


def damaged(**changes):
    return {**SIMPLE.to_json(), **changes}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        damaged(format=2),
        damaged(layers="many"),
        damaged(layers=0),
        damaged(row=float("nan")),
        damaged(mlp={"at": [1]}),
        damaged(mlp={"at": [2, 1], "values": [1, 1]}),
        damaged(head=7),
        damaged(read={"at": [], "curves": []}),
        damaged(row=10**400),
    ],
)
def test_anything_but_a_table_is_refused_with_what_to_do(value):
    with pytest.raises(UsageError, match=r"measure again|use|sort|give"):
        CostTable.from_json(value)


@pytest.mark.parametrize("recent", [None, [[1]], [[1, "x"]], [[1, float("inf")]], 7])
def test_a_model_with_damaged_observations_is_refused(recent):
    with pytest.raises(UsageError):
        CostModel.from_json({**CostModel(SIMPLE).to_json(), "recent": recent})


@pytest.mark.parametrize(
    "fields", [{"nodes": 0}, {"nodes": 1, "rows": 0}, {"nodes": 1, "context": -1}, {"nodes": 1, "head": -1}]
)
def test_steps_that_cannot_be_are_refused(fields):
    with pytest.raises(UsageError, match="1 or more nodes and rows"):
        Step(FULL, **fields)


@given(st.floats(0, 0.99), st.integers(0, 12))
def test_expected_tokens_are_the_papers_formula(acceptance, depth):
    assert expected_tokens(acceptance, depth) == pytest.approx((1 - acceptance ** (depth + 1)) / (1 - acceptance))


def test_a_draft_that_is_always_right_gives_every_token_and_the_bonus():
    assert expected_tokens(1.0, 5) == 6
    assert speedup(1.0, 5, c=0.25, v=1.0) == pytest.approx(6 / 2.25)
    assert speedup(0.0, 0, c=0.5, v=1.0) == 1.0
