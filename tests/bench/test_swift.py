"""``skipstone bench swift``: what it says of searches, on tiny models."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laboratory import NoModels, tiny_lab

from skipstone.bench.efficiency.lab import Lab
from skipstone.bench.efficiency.report import Report, run_parts
from skipstone.bench.swift.planted import Planted, searched
from skipstone.bench.swift.registry import parts
from skipstone.plan import LayerPlan
from skipstone.search.sublayer import plan_without, skipped_by

KEYS = {
    "planted_speedup",
    "planted_model_share",
    "candidates_to_95_cold",
    "candidates_to_95_warm",
    "recovery_plain_tokens",
    "recovery_best_tokens",
    "search_share",
    "shipped_vs_plain",
    "shipped_vs_plain_wall",
    "differences",
}


def _lab(models: object = None) -> Lab:
    lab = tiny_lab(models)
    return replace(lab, effort=replace(lab.effort, answer=48))


@pytest.fixture(scope="module")
def report() -> Report:
    known = parts()
    return run_parts(known, known, _lab())


def test_it_has_a_number_for_everything_that_the_search_did_or_a_reason(report: Report):
    assert report.values.keys() >= KEYS
    for key in KEYS:
        assert isinstance(report.values[key], int | float) or report.absent[key]
    assert report.values["differences"] == 0
    assert report.values["shipped_told"]


def test_a_machine_without_models_gets_reasons():
    known = parts()
    absent = run_parts(known, known, replace(tiny_lab(NoModels()), rivals=False)).absent
    assert "pull one" in absent["shipped_vs_plain"]


def test_plans_are_worth_what_they_leave_out_and_what_they_break():
    planted = Planted.made(_lab())
    best = planted.model.best
    idle = sorted(skipped_by(best))
    assert planted.worth(best, share=0.0) == pytest.approx(1)
    part = plan_without(planted.network.num_layers, idle[:1])
    assert planted.worth(part, share=0.0) <= 1
    broken = LayerPlan.uniform(planted.network.num_layers)
    assert planted.worth(broken, share=0.01) < planted.worth(best, share=0.01)


def test_a_warm_search_begins_with_the_plan_it_is_given():
    lab = _lab()
    planted = Planted.made(lab)
    tried, _ = searched(planted, lab, planted.model.best)
    assert tried <= 5
