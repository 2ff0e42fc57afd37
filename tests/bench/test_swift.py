"""``skipstone bench swift``: what it says of searches, on tiny models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from laboratory import PROMPTS, NoModels, tiny_lab

from skipstone.bench.efficiency.lab import Lab
from skipstone.bench.efficiency.report import Report, run_parts
from skipstone.bench.swift import ablations, unlike_tasks
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
    return run_parts(known[:3], known, _lab())


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


def test_a_stream_of_tasks_has_figures_for_every_drafter_and_task(tmp_path: Path):
    rows = {
        "cnn_dm_40.jsonl": {"article": "a man "},
        "gsm8k_test_200.jsonl": {"question": "how many"},
        "dolly_151.jsonl": {"instruction": "say it"},
        "spec_bench_60.jsonl": {"category": "translation", "turns": ["translate"]},
        "humaneval.jsonl": {"prompt": "def f():"},
    }
    for name, row in rows.items():
        (tmp_path / name).write_text(json.dumps(row) + "\n")
    found = unlike_tasks.run(tmp_path, tiny_lab())["stream"]
    assert set(found) == {"tiny", "planted"}
    for drafters in found.values():
        assert set(drafters) == {"uniform", "tuned on the first", "swift", "skip"}
        for tasks in drafters.values():
            assert set(tasks) == {"summary", "maths", "instructions", "translation", "code"}
            assert all(each["speed"] > 0 for each in tasks.values())


def test_a_stream_without_data_says_what_it_takes():
    known = parts()
    report = run_parts(known[3:4], known, tiny_lab())
    assert "--data is missing: a folder with cnn_dm_40.jsonl" in report.absent["stream"]


def test_ablations_change_one_thing_at_a_time():
    lab = tiny_lab()
    variants = ["no Bayes", "no early stop"]
    found = ablations.run(replace(lab, effort=replace(lab.effort, answer=40)), variants)["ablations"]
    assert list(found) == variants
    for told in found.values():
        assert len(told["speed"]) == len(told["matchness"]) == len(PROMPTS)
