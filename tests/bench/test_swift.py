"""``skipstone bench swift``: what it says of searches, on tiny models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from time import perf_counter
from typing import Any
from xml.etree import ElementTree

import pytest
from laboratory import PROMPTS, NoModels, tiny_lab
from rich.console import Console

from skipstone.bench.efficiency.lab import Lab
from skipstone.bench.efficiency.part import Absent
from skipstone.bench.efficiency.report import Report, facts, run_parts
from skipstone.bench.swift import ablations, shipped, unlike_tasks
from skipstone.bench.swift.differences import SummedReport, differing
from skipstone.bench.swift.picture import panels_of, picture
from skipstone.bench.swift.planted import Planted, searched, tried_until_good
from skipstone.bench.swift.registry import parts
from skipstone.bench.swift.shift import tokens_until
from skipstone.bench.swift.stream import Stream, Told
from skipstone.cli import bench_swift
from skipstone.cli.bench_swift_tables import tables
from skipstone.cli.main import main
from skipstone.draft.none import NoDrafter
from skipstone.draft.skip import SkipDrafter
from skipstone.plan import LayerPlan
from skipstone.search.event import Event
from skipstone.search.sublayer import plan_without, skipped_by
from skipstone.telemetry import StepRecord, Timing

KEYS = {
    "planted_speedup",
    "planted_model_share",
    "candidates_to_95_cold",
    "candidates_to_95_warm",
    "planted_speedup_leaky",
    "planted_model_share_leaky",
    "candidates_to_95_cold_leaky",
    "candidates_to_95_warm_leaky",
    "preset_speedup",
    "preset_worth",
    "recovery_plain_tokens",
    "recovery_best_tokens",
    "search_share",
    "shipped_vs_plain",
    "shipped_vs_plain_wall",
    "differences",
    "differences_planted",
    "differences_planted_leaky",
    "differences_preset",
    "differences_shift",
    "differences_shipped",
}


def _lab(models: object = None) -> Lab:
    lab = tiny_lab(models)
    return replace(lab, effort=replace(lab.effort, answer=48))


@pytest.fixture(scope="module")
def report() -> Report:
    known = parts()
    lab = _lab()
    return run_parts(known[:5], known, lab, SummedReport(facts(lab)))


def test_it_has_a_number_for_everything_that_the_search_did_or_a_reason(report: Report):
    assert report.values.keys() >= KEYS
    for key in KEYS:
        assert isinstance(report.values[key], int | float) or report.absent[key]
    assert report.values["differences"] == 0
    assert report.values["recovery_plain_speed_tokens"] or report.absent["recovery_plain_speed_tokens"]
    assert report.values["shipped_told"]


def test_differences_are_those_of_all_parts_that_ran():
    report = SummedReport({})
    assert "no part" in report.absent["differences"]
    report.put("differences_shipped", Absent("not asked for"))
    report.put("differences_planted", 2)
    report.put("differences_shift", 1)
    assert report.to_json()["differences"] == 3
    assert "differences" not in report.absent


def _told(seconds: Sequence[float], emitted: int = 4) -> Told:
    """A text whose steps took so long, after a first one of one token."""
    steps = [StepRecord(0, 0, 0, 0, 0, emitted, Timing(verify_s=each, prefill_s=9.0)) for each in seconds]
    return Told([0] * (1 + emitted * len(steps)), steps, sum(seconds), emitted * len(steps))


def test_speed_is_back_once_a_span_of_steps_is_as_fast():
    slow, fast = [8.0, 8.0, 8.0], [3.9, 4.1, 4.0, 4.0]
    assert tokens_until([_told(slow + fast)], 1.0) == 1 + 4 * 7
    assert tokens_until([_told(slow), _told(fast)], 1.0) == 2 + 4 * 7
    assert tokens_until([_told(fast)], 1.0) == 1 + 4 * 4
    assert tokens_until([_told(slow + fast[:3])], 1.0) is None


def test_texts_that_are_not_those_of_plain_decoding_are_counted():
    same, other = Told([1, 2]), Told([1, 3])
    assert differing([same, same, same], [same, other, other]) == 2


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
    assert isinstance(tried, int)
    assert tried <= 5


class NothingIsGood(Planted):
    def worth(self, plan: LayerPlan, share: float) -> float:
        return 0.9


def test_a_search_that_never_comes_near_the_best_plan_has_no_number_of_plans():
    lab = _lab()
    planted = Planted.made(lab)
    planted = NothingIsGood(planted.model, planted.network, planted.costs, planted.prompts)
    assert searched(planted, lab, planted.model.best)[0] == Absent("no plan tried was worth 95 % of the best")


def test_a_search_that_tried_nothing_has_no_number_of_plans():
    lab = _lab()
    lab = replace(lab, effort=replace(lab.effort, answer=1))
    assert searched(Planted.made(lab), lab, None) == (Absent("no plan was tried at all"), None)


def test_a_plan_that_was_lucky_once_is_not_good():
    lab = _lab()
    planted = Planted.made(lab, leak=0.5)
    lucky, best = LayerPlan.uniform(planted.network.num_layers), planted.model.best
    assert planted.worth(lucky, 1.0) > 1
    diary = [Event(what, 0, plan, hits=32, of=32) for plan in (lucky, best) for what in ("trial", "adopted")]
    assert tried_until_good(planted, diary[:2], lab) == Absent("no plan tried was worth 95 % of the best")
    assert tried_until_good(planted, diary, lab) == 2


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """A folder with one text of each task."""
    rows = {
        "cnn_dm_40.jsonl": {"article": "a man "},
        "gsm8k_test_200.jsonl": {"question": "how many"},
        "dolly_151.jsonl": {"instruction": "say it"},
        "spec_bench_60.jsonl": {"category": "translation", "turns": ["translate"]},
        "humaneval.jsonl": {"prompt": "def f():"},
    }
    for name, row in rows.items():
        (tmp_path / name).write_text(json.dumps(row) + "\n")
    return tmp_path


def test_a_stream_of_tasks_has_figures_for_every_drafter_and_task(tasks: Path):
    findings = unlike_tasks.run(tasks, tiny_lab())
    found = findings["stream"]
    assert findings["differences_stream"] == 0
    assert set(found) == {"tiny", "planted"}
    for drafters in found.values():
        assert set(drafters) == {"uniform", "tuned on the first", "swift", "skip"}
        for tasks in drafters.values():
            assert set(tasks) == {"summary", "maths", "instructions", "translation", "code"}
            assert all(each["speed"] > 0 for each in tasks.values())


def test_a_plan_tuned_on_the_first_task_keeps_the_depth_that_was_found():
    planted = Planted.made(_lab())
    searching = SkipDrafter(SkipDrafter.Options(budget=1.0, loan=10**6, depth=3), planted.network)
    Stream(planted.network, searching, None, perf_counter).decode(PROMPTS[0], 96)
    kept = unlike_tasks.frozen(searching, planted.network)
    assert isinstance(kept, SkipDrafter)
    assert searching.found is not None
    assert (kept.plan, kept.options.depth) == (searching.found.plan, searching.found.depth)
    assert kept.options.depth in (1, 2, 3)


def test_the_search_has_no_share_of_the_time_of_a_few_texts():
    lab = _lab()
    lab = replace(lab, effort=replace(lab.effort, quick_only=False))
    found = shipped.run(lab)
    assert found["shipped_texts"] == 2
    assert "over 2 texts" in found["search_share"].reason


def test_a_picture_of_a_stream_without_its_data_is_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "swift", "--svg", str(tmp_path / "found.svg")]) == 2
    assert "takes --data" in capsys.readouterr().err


def _interrupted(values: dict[str, Any], drawn: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """``bench swift --svg``, interrupted when it has found these values."""

    def carry_out(chosen: Any, known: Any, lab: Lab, report: Report, show: Any) -> None:
        report.values.update(values)
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_swift, "carry_out", carry_out)
    return main(["bench", "swift", "--only", "ablations", "--svg", str(drawn)])


def test_an_interrupted_run_is_drawn_as_far_as_it_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = {"ablations": {"preset": {"speed": [1.0, 2.0], "matchness": [0.5, 0.6]}}}
    assert _interrupted(found, tmp_path / "found.svg", monkeypatch) == 130
    assert "polyline" in (tmp_path / "found.svg").read_text()


def test_a_picture_of_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    _interrupted({}, tmp_path / "found.svg", monkeypatch)
    assert "not drawn" in capsys.readouterr().err
    assert not (tmp_path / "found.svg").exists()


def test_every_part_notices_drafted_texts_that_are_wrong(tasks: Path, monkeypatch: pytest.MonkeyPatch):
    decode = Stream.decode

    def wrong(stream: Stream, *arguments: Any) -> Told:
        told = decode(stream, *arguments)
        return told if isinstance(stream.drafter, NoDrafter) else replace(told, tokens=[*told.tokens[::-1], 0])

    monkeypatch.setattr(Stream, "decode", wrong)
    known, lab = parts(tasks), tiny_lab()
    found = run_parts(known, known, lab, SummedReport(facts(lab))).values
    counts = [found[key] for part in known for key in part.keys if key.startswith("differences_")]
    assert len(counts) == len(known)
    assert all(counts)
    assert found["differences"] == sum(counts)


def test_a_stream_without_data_says_what_it_takes():
    known = parts()
    report = run_parts([part for part in known if part.name == "stream"], known, tiny_lab())
    assert "--data is missing: a folder with cnn_dm_40.jsonl" in report.absent["stream"]


@pytest.fixture(scope="module")
def ablated() -> dict[str, Any]:
    lab = tiny_lab()
    lab = replace(lab, effort=replace(lab.effort, new_tokens=40))
    return dict(ablations.run(None, lab, ["no Bayes", "no early stop"]))


def test_ablations_change_one_thing_at_a_time(ablated: dict[str, Any]):
    found = ablated["ablations"]
    assert list(found) == ["no Bayes", "no early stop"]
    assert ablated["differences_ablations"] == 0
    for told in found.values():
        assert len(told["speed"]) == len(told["matchness"]) == 3 * len(PROMPTS)


def test_a_part_that_leaks_knows_how_often_its_best_plan_is_right():
    still, leaking = Planted.made(_lab()), Planted.made(_lab(), leak=0.5)
    assert still.share == 1
    assert 0 < leaking.share < 1
    assert leaking.worth(leaking.model.best, leaking.share) == pytest.approx(1)
    assert leaking.worth(leaking.model.best, leaking.share / 2) < 1


def test_what_was_found_is_drawn_text_by_text(ablated: dict[str, Any]):
    tasks = {"maths": {"speeds": [1.0, 2.0]}, "code": {"speeds": [3.0]}}
    panels = panels_of({"stream": {"tiny": {"skip": tasks}}, **ablated})
    assert [panel.title.split(":")[0] for panel in panels] == [
        "tiny",
        "swift, speed over plain decoding, text by text",
        "swift, best matchness, text by text",
    ]
    assert panels[0].lines == {"skip": [1.0, 2.0, 3.0]}
    drawn = ElementTree.fromstring(picture(panels))
    lines = [each for each in drawn.iter() if each.tag.endswith("polyline")]
    assert [len(line.attrib["points"].split()) for line in lines] == [3, *4 * [3 * len(PROMPTS)]]
    assert panels_of({"stream": None}) == []


def test_what_was_found_is_told_in_tables(ablated: dict[str, Any]):
    task = {"speed": 1.5, "acceptance": 0.75, "mean_accepted": 2.0}
    console = Console(file=StringIO(), width=160)
    for table in tables({"stream": {"tiny": {"skip": {"maths": task}}}, **ablated}):
        console.print(table)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "1.50 (0.75)" in said
    assert "no early stop" in said
    assert not list(tables({"planted_speedup": 1.0}))
