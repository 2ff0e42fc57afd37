"""``skipstone bench efficiency`` on a tiny model: what it prints, and what it refuses."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from commands import Run, assert_says
from public_texts import public_texts


def test_json_is_one_object_and_progress_goes_to_stderr(run: Run, folder: Path) -> None:
    result = run(
        "bench", "efficiency", "--quick", "--json", "--model", folder, "--only", "verify6_float32", "--only", "sampling"
    )
    assert result.code == 0
    report = json.loads(result.out)
    assert report["verify6_float32"] > 0
    assert report["sampling_share"] is not None
    assert report["plain_ratio_float32"] is None
    assert report["absent"]["plain_ratio_float32"] == "not asked for"
    assert report["threads"] >= 1
    assert report["model"] == str(folder)
    assert "verify …" in result.err
    assert "plain …" not in result.err


def test_a_table_names_every_figure_asked_for(run: Run, folder: Path) -> None:
    result = run("bench", "efficiency", "--quick", "--model", folder, "--only", "verify", "--only", "economize")
    assert result.code == 0
    assert_says(result.out, r"verify6_float16 .*≤ 1\.25")
    assert_says(result.out, r"economize_speedup +absent .*--rivals")
    assert_says(result.out, r"ms of a run by nodes")
    assert "plain_ratio" not in result.out


def test_a_cycle_is_shown_with_its_parts_and_its_bound(run: Run) -> None:
    result = run("bench", "efficiency", "--quick", "--only", "planted_exit")
    assert_says(result.out, r"planted +c +v +late +M +speedup +model share +bound")
    assert_says(result.out, r"exit, float32 .* 6\.00 .* 1\.66")


def test_memory_is_measured_in_a_process_of_its_own(run: Run, folder: Path) -> None:
    result = run("bench", "efficiency", "--quick", "--json", "--model", folder, "--only", "rss_mb")
    report = json.loads(result.out)
    assert 100 < report["rss_mb"] < 5000, report["absent"]
    assert report["float16_weights_mb"] < 1


def test_a_model_that_is_not_there_leaves_the_planted_figures(run: Run, tmp_path: Path) -> None:
    result = run(
        "bench", "efficiency", "--quick", "--json", "--offline", "--cache", tmp_path, "--only", "verify", "--only",
        "planted_exit",
    )  # fmt: skip
    report = json.loads(result.out)
    assert report["verify6_float32"] is None
    assert "verify6_float32" in report["absent"]
    assert report["planted_exit_speedup"] > 0


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_where_nothing_was_measured_the_report_ends_in_an_error(run: Run, tmp_path: Path, form: list[str]) -> None:
    result = run("bench", "efficiency", "--quick", *form, "--model", tmp_path / "none", "--only", "verify")
    assert result.code == 2
    assert "verify6_float32" in result.out
    assert_says(result.err.splitlines()[-1], r"^error: nothing was measured: .*none")


def test_a_benchmark_of_what_was_not_allowed_measured_nothing(run: Run, folder: Path) -> None:
    result = run("bench", "efficiency", "--quick", "--json", "--model", folder, "--only", "economize")
    assert result.code == 2
    assert_says(result.err.splitlines()[-1], r"nothing was measured: .*--rivals")


def test_unknown_figures_are_named_with_those_there_are(run: Run) -> None:
    error = run("bench", "efficiency", "--only", "planted").error
    assert_says(error, 'no part or figure "planted"')
    assert_says(error, "planted_exit_speedup")


def test_bench_alone_shows_its_commands(run: Run) -> None:
    assert "efficiency" in run("bench", "--help").out
    assert "--rivals" in run("bench", "efficiency", "--help").out


def test_a_checkpoint_is_judged_as_one_json_object(run: Run, folder: Path, tmp_path: Path) -> None:
    data = public_texts(tmp_path / "data")
    result = run(
        "bench", "layerskip", "--quick", "--json", "--checkpoint", folder, "--base", folder, "--data", data, "--only",
        "exits",
    )  # fmt: skip
    assert result.code == 0
    report = json.loads(result.out)
    assert (report["checkpoint"], report["base"]) == (str(folder), str(folder))
    assert report["exits"]["maths"]["after"]["4"] == 1
    assert report["absent"]["speedup"] == "not asked for"
    assert "rows of wikitext" in result.err


def test_a_checkpoint_is_shown_as_tables(run: Run, folder: Path, tmp_path: Path) -> None:
    data = public_texts(tmp_path / "data")
    result = run(
        "bench", "layerskip", "--quick", "--checkpoint", folder, "--base", folder, "--data", data, "--only", "exits",
        "--only", "decoding",
    )  # fmt: skip
    assert result.code == 0
    assert_says(result.out, r"QUICK: these figures mean nothing")
    assert_says(result.out, r"differences +0 ")
    assert_says(result.out, r"maths +before +\d+ +100 +\d")
    assert_says(result.out, r"exit:layer=2,depth=\d,width=\d,head=64 +stories")


def test_a_checkpoint_is_judged_by_data_that_must_be_named(run: Run, folder: Path, tmp_path: Path) -> None:
    assert_says(run("bench", "layerskip", "--checkpoint", folder).error, "--data is missing: .*gsm8k_test_200.jsonl")
    error = run("bench", "layerskip", "--checkpoint", folder, "--data", tmp_path, "--only", "speed").error
    assert_says(error, 'no part or figure "speed": did you mean "speedup"')


def test_data_that_are_not_there_are_why_figures_are_absent(run: Run, folder: Path, tmp_path: Path) -> None:
    result = run(
        "bench", "layerskip", "--quick", "--checkpoint", folder, "--base", folder, "--data", tmp_path, "--only", "exits"
    )
    assert result.code == 2
    assert_says(result.out, r"exits +absent .*cannot be read")
    assert_says(result.err.splitlines()[-1], r"nothing was measured: .*cannot be read")


def test_the_miniature_is_told_as_a_table_and_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the cat and the hat in the bin and a man " * 100)
    result = run("bench", "miniature", "--data", tmp_path / "text.txt", "--output", tmp_path / "out", "--quick")
    assert result.code == 0, result.err
    assert_says(result.out, r"exit +loss without +with +agreement without +with")
    assert_says(result.out, r" 4 .* 100\.0% +100\.0%")
    assert (tmp_path / "out" / "miniature.svg").is_file()
    assert_says(result.err, r"training with the recipe, 2 steps")
    assert_says(result.err, r"step 2 of 2, loss \d")


def test_the_miniature_needs_texts_and_steps(run: Run, tmp_path: Path) -> None:
    assert_says(run("bench", "miniature").error, "--data is missing")
    assert_says(run("bench", "miniature", "--data", tmp_path, "--steps", 1).error, "--steps 1: give 2 or more")


def test_the_miniature_looks_for_a_place_to_write_before_it_trains(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").write_text("a file")
    monkeypatch.setattr("skipstone.bench.miniature.run_miniature", lambda *_: pytest.fail("trained first"))
    result = run("bench", "miniature", "--data", tmp_path / "text.txt", "--output", tmp_path / "out")
    assert result.code == 1
    assert_says(result.error, "out: .*choose another with --output")


def test_the_miniatures_figures_are_told_also_where_they_cannot_be_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "text.txt").write_text("Once upon a time there was a cat. She sat on the mat all day. " * 60)
    monkeypatch.setattr("skipstone.bench.miniature.Miniature.save", full)
    result = run("bench", "miniature", "--data", tmp_path / "text.txt", "--output", tmp_path / "out", "--quick")
    assert result.code == 1
    assert "agreement without" in result.out
    assert_says(result.err.splitlines()[-1], "no space left on the disk")
