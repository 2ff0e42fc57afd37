"""Search while text is generated, on models whose best plan is known and steps whose costs are."""

import gc
import json
import weakref
from typing import Any

import pytest

from skipstone.bench.planted import moved, skip_form
from skipstone.bench.planted.random import Shape
from skipstone.cost import Step
from skipstone.draft.skip import SkipDrafter
from skipstone.draft.tuned import Drafted
from skipstone.engine import Engine
from skipstone.errors import UsageError
from skipstone.hf.fit import fit
from skipstone.network import Run
from skipstone.plan import LayerPlan
from skipstone.request import Request
from skipstone.search.budget import Budget
from skipstone.search.in_use import InUse
from skipstone.search.pace import Expected
from skipstone.search.pricing import Pricing, Uniform
from skipstone.search.searcher import Trial
from skipstone.search.sublayer import told_parts
from skipstone.search.tuner import Tuner
from skipstone.search.tuner_options import TunerOptions
from skipstone.telemetry import StepRecord, Summary, Timing
from skipstone.testing import plain_text, tiny_network

SHAPE = Shape(layers=12, hidden=32, mlp=48, heads=4, kv_heads=2, vocab_size=128, context=1024)
Options = SkipDrafter.Options


class Sink:
    """Keeps every record."""

    def __init__(self) -> None:
        self.records: list[StepRecord] = []

    def record(self, record: StepRecord) -> None:
        self.records.append(record)


def _decode(network: Any, drafter: SkipDrafter, tokens: int, prompt: int = 5) -> tuple[list[int], Sink]:
    sink = Sink()
    engine = Engine(network, drafter, capacity=tokens + 80, sinks=[sink])
    [row] = engine.admit(Request([prompt, 6, 7], max_new_tokens=tokens))
    said: list[int] = []
    while engine.busy:
        said += [token for emission in engine.step() for token in emission.tokens]
    engine.release(row)
    return said, sink


def _generous(network: Any) -> SkipDrafter:
    """Time is no matter: what is found is what counts."""
    return SkipDrafter(Options(budget=1.0, loan=10_000), network)


def _tuner(drafter: SkipDrafter) -> Tuner:
    assert drafter.tuned is not None
    return drafter.tuned.tuner


def _accepted(sink: Sink) -> float:
    summary = Summary()
    for record in sink.records:
        summary.record(record)
    return summary.acceptance_rate


def test_the_idle_sublayers_are_found_and_serve_the_next_text_and_the_next_drafter():
    planted = skip_form(SHAPE, attn=6)
    network = fit(planted.model)[0]
    first, second = _generous(network), _generous(network)
    _decode(network, first, 120)
    assert _tuner(first).plan == planted.best
    second.recall(first.memory)
    _, sink = _decode(network, second, 60, prompt=9)
    assert sink.records[1].drafted > 0
    assert _accepted(sink) == 1
    assert _tuner(second) is _tuner(first)


def test_where_the_idle_sublayers_move_the_plan_is_dropped_and_another_one_found():
    planted = skip_form(SHAPE, attn=6)
    drafter = _generous(fit(planted.model)[0])
    _decode(fit(planted.model)[0], drafter, 120)
    there = moved(planted, seed=5)
    network = fit(there.model)[0]
    _, sink = _decode(network, drafter, 200)
    assert _tuner(drafter).plan == there.best
    whats = [event.what for event in _tuner(drafter).events]
    assert "dropped" in whats
    emitted = 0
    for record in sink.records:
        emitted += record.emitted
        if not record.drafted:
            break
    assert emitted <= 30  # and plain decoding is back by then


def test_after_a_plan_was_dropped_nothing_is_borrowed_until_a_whole_window_was_decoded_plainly():
    """Plain speed is to be back at once; a loan would take it away again."""
    planted = skip_form(SHAPE, attn=6)
    drafter = SkipDrafter(Options(budget=1e-6, loan=10_000), fit(planted.model)[0])
    _decode(fit(planted.model)[0], drafter, 400)  # long enough to be granted another loan
    _tuner(drafter).before = None
    network = fit(moved(planted, seed=5).model)[0]
    for prompt in range(5, 15):  # answers shorter than a window: what counts is the stream
        _decode(network, drafter, 24, prompt)
    events = list(_tuner(drafter).events)
    [dropped] = [place for place, event in enumerate(events) if event.what == "dropped"]
    assert events[dropped + 1].what == "trial"
    assert 32 <= events[dropped + 1].tokens - events[dropped].tokens < 64


def test_a_model_without_idle_sublayers_is_decoded_plainly():
    network = tiny_network(layers=6)
    drafter = _generous(network)
    said, sink = _decode(network, drafter, 150)
    assert said == plain_text(network, Request([5, 6, 7], max_new_tokens=150))
    assert sum(record.drafted for record in sink.records[-50:]) == 0
    assert _tuner(drafter).plan is None


def test_a_model_too_shallow_to_skip_anything_is_decoded_plainly():
    network = tiny_network(layers=2)
    _, sink = _decode(network, _generous(network), 40)
    assert not any(record.drafted for record in sink.records)


def test_without_a_loan_nothing_is_tried_before_its_time_was_earned():
    network = fit(skip_form(SHAPE, attn=6).model)[0]
    drafter = SkipDrafter(Options(budget=1e-6, loan=0), network)
    _decode(network, drafter, 100)
    assert not _tuner(drafter).events


def test_with_all_the_time_for_the_search_nothing_has_to_be_earned_first():
    assert Budget(share=1.0, lent_at=None).affords(80, loan_ms=0)


def test_a_loan_is_repaid_before_anything_else_is_tried():
    budget = Budget(share=0.01)
    assert budget.affords(80, loan_ms=80)
    budget.spend(80)
    assert not budget.affords(1, loan_ms=80)
    assert budget.rests_until == pytest.approx(100 * (80 + 80))  # the last trial took 80 ms: the next will, too
    budget.ran_ms = 8_000
    assert budget.used == pytest.approx(0.01)
    assert budget.rests
    budget.lent_at = 80  # another loan, after a drop
    assert budget.affords(50, loan_ms=80)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"window": 0}, "window of 0"),
        ({"share": 0.0}, "budget of 0"),
        ({"share": 1.5}, "1.5"),
        ({"loan": -1}, "-1"),
        ({"loan": 10**400}, "a loan of 1000"),
    ],
)
def test_settings_that_leave_nothing_to_search_with_are_refused(options: dict[str, Any], said: str):
    with pytest.raises(UsageError, match=said):
        TunerOptions(**options)


def test_a_plan_that_promises_more_than_plain_decoding_and_is_not_used_comes_with_the_reason():
    network = fit(skip_form(SHAPE, attn=6).model)[0]
    tuner = _tuner(_generous(network))
    tuner.best = Trial(LayerPlan.uniform(12), 29, 32, speed=1.08)
    assert tuner.told().endswith("sublayers, 1.08 times plain decoding")
    tuner.trust.broken = [0, 0]
    assert tuner.told().endswith("by its trial, which is not enough: 2 before it fell short of theirs")
    tuner.best = Trial(LayerPlan.uniform(12), 9, 32, speed=0.8)
    assert tuner.told().endswith("sublayers, 0.80 times plain decoding")


@pytest.mark.parametrize(
    ("rows", "context", "says"),
    [
        (1, 12, "not drafting: at a context of 12 tokens, a draft without 2 MLP sublayers does not pay"),
        (8, 640, "not drafting: with 8 rows, at a context of 640 tokens, a draft without 2 MLP sublayers does not pay"),
    ],
)
def test_a_plan_that_does_not_pay_now_is_told_with_rows_and_context(rows: int, context: int, says: str):
    tuner = _tuner(_generous(fit(skip_form(SHAPE, attn=6).model)[0]))
    plan = LayerPlan.skipping(tuner.network_layers, mlp=[2, 3])
    tuner.use = InUse.taken_up(Trial(plan, 29, 32, 1.5), share=0.9, tokens=0)
    tuner.priced_out = Pricing(Uniform(tuner.network_layers), tuner.network_layers, rows, context)
    assert tuner.told() == says


@pytest.mark.parametrize(
    ("attn", "mlp", "says"),
    [([1], [], "1 attention sublayer"), ([1], [2, 3], "1 attention and 2 MLP sublayers"), ([], [], "no sublayers")],
)
def test_what_a_plan_leaves_out_is_told_without_what_it_does_not(attn: list[int], mlp: list[int], says: str):
    assert told_parts(LayerPlan.skipping(5, attn, mlp)) == says


def test_search_time_is_told_apart_from_drafting():
    network = fit(skip_form(SHAPE, attn=6).model)[0]
    _, sink = _decode(network, _generous(network), 80)
    assert sum(record.timing.search_s for record in sink.records) > 0
    assert all(record.timing.draft_s >= 0 for record in sink.records)


def test_a_plan_is_believed_as_much_as_its_trials_until_its_own_drafts_are_many():
    use = InUse.taken_up(Trial(LayerPlan.uniform(4), 29, 32, 1.5), share=0.9, tokens=0)
    assert use.acceptance(1) == pytest.approx(0.9)
    use.observe(accepted=0, judged=1)
    assert 0.7 < use.acceptance(1) < 0.9
    assert not use.proved
    for _ in range(40):
        use.observe(accepted=0, judged=1)
    assert use.proved
    assert use.acceptance(1) < 0.3
    assert use.promised(3) == pytest.approx(0.9)


def test_a_plan_that_does_not_pay_for_many_rows_is_kept_for_one():
    """What is said against it is the price of the moment, not its drafts."""
    planted = skip_form(SHAPE, attn=6)
    network = fit(planted.model)[0]
    drafter = _generous(network)
    _decode(network, drafter, 120)
    costs = _Dear(rows=3)
    engine = Engine(network, drafter, rows=3, capacity=200, costs=costs)
    rows = [engine.admit(Request([n, 6, 7], max_new_tokens=12))[0] for n in (5, 6, 8)]
    while engine.busy:
        engine.step()
    for row in rows:
        engine.release(row)
    assert _tuner(drafter).plan == planted.best
    assert not any(event.what == "dropped" for event in _tuner(drafter).events)


class _Dear:
    """Costs under which verifying is dear for many rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def ms(self, step: Step) -> float:
        return 1.0 * (step.nodes if step.rows >= self.rows else 1)

    def observe(self, step: Step, ms: float) -> None:
        pass


def test_what_is_learnt_holds_no_network():
    network = fit(skip_form(SHAPE, attn=6).model)[0]
    drafter = _generous(network)
    _decode(network, drafter, 60)
    learnt, gone = drafter.memory, weakref.ref(network)
    del network, drafter
    gc.collect()
    assert learnt is not None
    assert gone() is None


def test_numbers_that_are_not_finite_in_a_trial_reach_no_text():
    """Layer 4's attention overflows under any plan but the whole; its keys and values must not stay in scratch."""
    network = _Overflowing(tiny_network(layers=6))
    request = Request([5, 6, 7], max_new_tokens=60)
    plain = plain_text(tiny_network(layers=6), request)
    engine = Engine(network, _generous(network), rows=2, capacity=160)
    first, _ = [engine.admit(Request([5, 6, 7], 60))[0], engine.admit(Request(list(range(3, 40)), 60))[0]]
    said: list[int] = []
    while engine.busy:
        said += [token for e in engine.step() if e.row == first for token in e.tokens]
    assert said == plain


class _Overflowing:
    """Plans that leave anything out write NaN."""

    def __init__(self, network: Any) -> None:
        self._network = network

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def run(self, x: Any, placement: Any, cache: Any, plan: LayerPlan, taps: Any = ()) -> Any:
        found = self._network.run(x, placement, cache, plan, taps)
        if plan.skip_attn or plan.skip_mlp:
            nodes = placement.positions.shape[1]
            for row, start in zip(placement.rows, placement.first, strict=True):
                cache.keys[-1][row, :, start : start + nodes] = float("nan")
                cache.values[-1][row, :, start : start + nodes] = float("nan")
            return Run(found.hidden * float("nan"), found.taps)
        return found


def test_cycles_are_compared_with_what_their_steps_should_take() -> None:
    network = fit(skip_form(SHAPE, attn=6).model)[0]
    drafter = SkipDrafter(Options(), network)
    assert drafter.tuned is not None
    for _ in range(200):
        drafter.tuned.drafted[0] = Drafted(LayerPlan.uniform(12), [0.9], Expected(10.0, 1.0))
        drafter.observe(StepRecord(0, 1, 1, 1, 0, 2, Timing(draft_s=0.006, verify_s=0.007)))
    assert _tuner(drafter).pace.slower == pytest.approx(1.3, abs=0.03)


def test_texts_that_end_in_drafted_tokens_say_nothing_against_a_plan() -> None:
    network = fit(skip_form(SHAPE, attn=6).model)[0]
    drafter = SkipDrafter(Options(), network)
    plan = LayerPlan.uniform(12)
    _tuner(drafter).use = InUse.taken_up(Trial(plan, 32, 32, 1.5), share=1.0, tokens=0)
    assert drafter.tuned is not None
    for _ in range(20):
        drafter.tuned.drafted[0] = Drafted(plan, [0.9] * 4, None)
        drafter.observe(StepRecord(0, 4, 4, 2, 0, 3, Timing(), ends=1))
    assert _tuner(drafter).use.recent.share > 0.98  # what the trials were believed by


def test_drafts_with_a_plan_that_another_thread_has_put_aside_say_nothing_of_the_new_one() -> None:
    network = fit(skip_form(SHAPE, attn=6).model)[0]
    drafter = SkipDrafter(Options(), network)
    _tuner(drafter).use = InUse.taken_up(Trial(LayerPlan.uniform(12), 32, 32, 1.5), share=1.0, tokens=0)
    assert drafter.tuned is not None
    for _ in range(20):
        drafter.tuned.drafted[0] = Drafted(LayerPlan.skipping(12, attn=[3]), [0.9] * 4, None)
        drafter.observe(StepRecord(0, 4, 4, 0, 0, 1, Timing()))
    assert _tuner(drafter).use.judged == 0


def test_time_for_the_books_is_told_with_that_for_trials() -> None:
    network = fit(skip_form(SHAPE, attn=6).model)[0]
    drafter = _generous(network)
    _, sink = _decode(network, drafter, 40)
    budget = _tuner(drafter).budget
    assert budget.kept_ms > 0
    assert sum(record.timing.search_s for record in sink.records) == pytest.approx(
        (budget.spent_ms + budget.kept_ms) / 1e3, rel=0.01
    )


def test_a_search_is_reported_candidate_by_candidate() -> None:
    network = fit(skip_form(SHAPE, attn=6).model)[0]
    drafter = _generous(network)
    assert drafter.memory is not None
    assert drafter.memory.report().phase == "optimisation"
    _decode(network, drafter, 120)
    report = drafter.memory.report()
    assert report.plan == _tuner(drafter).plan is not None
    trials = [event for event in report.events if event.what == "trial"]
    assert len(trials) > 1
    assert all(event.speed > 0 and event.of >= event.hits for event in trials)
    assert 0 < report.search_ms < report.ran_ms
    told = json.loads(json.dumps(report.to_json()))
    assert told["plan"]["attn"] == sorted(report.plan.skip_attn)
    assert [event["what"] for event in told["events"]] == [event.what for event in report.events]


def test_the_books_are_paid_for_too_but_leave_half_of_the_time_for_trials() -> None:
    budget = Budget(share=0.01, ran_ms=10_000.0, kept_ms=30.0, lent_at=None)
    assert budget.affords(69, loan_ms=0)
    assert not budget.affords(71, loan_ms=0)
    budget.kept_ms = 1000.0
    assert budget.affords(49, loan_ms=0)
