"""Search while text is generated, on models whose best plan is known and steps whose costs are."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from skipstone.bench.planted import moved, skip_form
from skipstone.bench.planted.random import Shape
from skipstone.draft.skip import SkipDrafter
from skipstone.engine import Engine
from skipstone.errors import UsageError
from skipstone.hf.fit import fit
from skipstone.request import Request
from skipstone.search.budget import Budget
from skipstone.search.guided import GuidedSearcher
from skipstone.search.tuner import Tuner, TunerOptions
from skipstone.telemetry import StepRecord, Summary
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


def test_the_idle_sublayers_are_found_and_drafts_without_them_are_accepted():
    planted = skip_form(SHAPE, attn=6)
    network = fit(planted.model)[0]
    drafter = _generous(network)
    _decode(network, drafter, 120)
    assert _tuner(drafter).plan == planted.best
    assert _accepted(_decode(network, drafter, 60, prompt=9)[1]) == 1


def test_what_was_found_serves_the_next_text_and_the_next_drafter():
    planted = skip_form(SHAPE, attn=6)
    network = fit(planted.model)[0]
    first, second = _generous(network), _generous(network)
    _decode(network, first, 120)
    second.recall(first.memory)
    _, sink = _decode(network, second, 60, prompt=9)
    assert sink.records[1].drafted > 0
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


def _clocked(network: Any, **options: Any) -> tuple[SkipDrafter, Callable[[], float]]:
    """A drafter whose tuner takes one unit of time for each look at the clock."""
    drafter = SkipDrafter(Options(**options), network)
    ticks = iter(range(10**9))
    tuner = Tuner(network.num_layers, lambda: GuidedSearcher(network.num_layers), drafter.options.tuning())
    tuner.clock = lambda: float(next(ticks))
    drafter.tuned = replace(drafter.tuned, tuner=tuner)
    return drafter, tuner.clock


def test_without_a_loan_nothing_is_tried_before_its_time_was_earned():
    network = fit(skip_form(SHAPE, attn=6).model)[0]
    drafter, _ = _clocked(network, budget=0.01, loan=0)
    _decode(network, drafter, 100)
    assert _tuner(drafter).budget.spent_ms == 0  # a trial costs many plain steps of made-up costs, none was earned


def test_a_loan_is_repaid_before_anything_else_is_tried():
    budget = Budget(share=0.01, loan_ms=80.0)
    assert budget.due(80) == 0
    budget.spent_ms = 80
    assert budget.due(1) == pytest.approx(100)
    budget.ran_ms = 8_000
    assert budget.due(80) == pytest.approx(8_000)
    budget.loan_ms = 0.0
    assert budget.due(1) == pytest.approx(8_100)
    assert budget.used == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"window": 0}, "window of 0"), ({"share": 0.0}, "budget of 0"), ({"share": 1.5}, "1.5"), ({"loan": -1}, "-1")],
)
def test_settings_that_leave_nothing_to_search_with_are_refused(options: dict[str, Any], said: str):
    with pytest.raises(UsageError, match=said):
        TunerOptions(**options)


def test_search_time_is_told_apart_from_drafting():
    network = fit(skip_form(SHAPE, attn=6).model)[0]
    _, sink = _decode(network, _generous(network), 80)
    assert sum(record.timing.search_s for record in sink.records) > 0
    assert all(record.timing.draft_s >= 0 for record in sink.records)
