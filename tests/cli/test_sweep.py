"""``skipstone sweep``: tables, files, and the preset that is kept."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import Run, assert_says
from folders import change, copy
from paying import layers_cost_everything, layers_cost_nothing
from tiny_folder import tiny_folder

from skipstone.bench.sweep.measurement import Measured, Measurement
from skipstone.bench.sweep.setting import Setting
from skipstone.bench.timing import Estimate
from skipstone.cli.heat_map import colour, coloured, picture
from skipstone.cli.numbers import numbers
from skipstone.errors import StoreError, UsageError
from skipstone.search.preset import ExitPreset


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Later layers do little, and exits 2 and 4 are said to be trained."""
    folder = tiny_folder(tmp_path_factory.mktemp("models") / "deep", layers=6)
    return change(copy(folder, folder.parent / "trained") / "config.json", skipstone_exits=[2, 4])


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.txt"
    path.write_text("the and the\nand the and\n")
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> list[Setting]:
    """Layers are all that takes time, by costs and clock; what was measured is kept here."""
    layers_cost_everything(monkeypatch)
    return _measuring(monkeypatch, 1.4)


def _measuring(monkeypatch: pytest.MonkeyPatch, speed: float) -> list[Setting]:
    asked: list[Setting] = []

    def of(self: Measurement, settings: Sequence[Setting]) -> list[Measured]:
        asked.extend(settings)
        return [
            Measured(each, Estimate(speed - number / 100, speed - 0.1, speed + 0.1, 5), 3.0, 0, 0)
            for number, each in enumerate(settings)
        ]

    monkeypatch.setattr(Measurement, "of", of)
    return asked


def listed(run: Run, cache: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(run("plans", "list", "--json", "--cache", cache).out)
    return entries


def test_the_best_setting_is_shown_and_kept_for_the_task(
    run: Run, trained: Path, prompts: Path, cache: Path, fast: list[Setting]
) -> None:
    result = run("sweep", trained, "--prompts", prompts, "--task", "stories", "--max-new-tokens", 40, "--cache", cache)
    assert result.code == 0, result.err
    assert "2/2 texts" in result.err
    assert {setting.exit for setting in fast} <= {2, 4}
    best = fast[0]
    assert f"{best.told}: 1.40 × plain decoding (1.30 to 1.50)" in result.out
    assert "1.40*" in result.out
    assert "task stories" in result.out
    entry = listed(run, cache)[0]
    assert (entry["kind"], entry["task"]) == ("exit", "stories")
    assert (entry["layer"], entry["depth"], entry["width"], entry["head"]) == (
        best.exit,
        best.depth,
        best.width,
        best.head,
    )
    assert list(entry["speeds"].values()) == [1.4]
    assert 0 < entry["agreement"] <= 1
    assert entry["tokens"] >= 16


def test_the_preset_is_what_the_model_has_when_it_is_loaded_again(
    run: Run, trained: Path, prompts: Path, cache: Path, fast: list[Setting]
) -> None:
    import skipstone
    from skipstone.store import PlanShelf

    run("sweep", trained, "--prompts", prompts, "--max-new-tokens", 30, "--cache", cache)
    shelf = skipstone.load(trained, cache=cache, progress=lambda line: None).plans
    assert isinstance(shelf, PlanShelf)
    preset = shelf.get_exit("default")
    assert isinstance(preset, ExitPreset)
    assert (preset.layer, preset.depth, preset.speed) == (fast[0].exit, fast[0].depth, 1.4)


def test_everything_is_printed_and_written_where_it_is_asked_for(
    run: Run, trained: Path, prompts: Path, cache: Path, fast: list[Setting], tmp_path: Path
) -> None:
    png, table = tmp_path / "map.png", tmp_path / "all.csv"
    asked = ["--exits", "1-2", "--depths", "2,4", "--widths", "1", "--full", "--no-keep", "--max-new-tokens", 30]
    result = run("sweep", trained, "--prompts", prompts, *asked, "--json", "--png", png, "--csv", table)
    told = json.loads(result.out)
    assert told["kept"] is None
    assert len(fast) == len(told["settings"]) == 4
    assert png.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert {(row["exit"], row["depth"]) for row in rows} == {("1", "2"), ("1", "4"), ("2", "2"), ("2", "4")}
    assert float(rows[0]["predicted"]) == told["settings"][0]["predicted"]


def test_nothing_is_kept_unless_it_is_to_be(
    run: Run, trained: Path, prompts: Path, cache: Path, fast: list[Setting]
) -> None:
    assert run("sweep", trained, "--prompts", prompts, "--no-keep", "--max-new-tokens", 30, "--cache", cache).code == 0
    assert listed(run, cache) == []


def test_where_nothing_pays_that_is_said_and_nothing_is_kept(
    run: Run, trained: Path, prompts: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers_cost_nothing(monkeypatch)
    _measuring(monkeypatch, 0.7)
    result = run("sweep", trained, "--prompts", prompts, "--max-new-tokens", 30, "--cache", cache)
    assert result.code == 0, result.err
    assert "use skip or ngram" in result.out
    assert listed(run, cache) == []


def test_a_real_measurement_runs_through(
    run: Run, trained: Path, prompts: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers_cost_everything(monkeypatch)
    asked = ["--depths", "2", "--max-new-tokens", 20, "--json", "--cache", cache]
    told = json.loads(run("sweep", trained, "--prompts", prompts, *asked).out)
    assert sum(setting["measured"] is not None for setting in told["settings"]) == 1
    assert (told["kept"] is None) == (not listed(run, cache))
    assert told["differences"] == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "give a file of them with --prompts"),
        (["--prompts", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["--prompts", "PROMPTS", "--max-new-tokens", "3"], "texts of 3 tokens"),
        (["--prompts", "PROMPTS", "--task", "a,b"], "sweep: task='a,b' is no label"),
        (["--prompts", "PROMPTS", "--exits", "4,x"], '--exits "4,x" is no list'),
        (["--prompts", "PROMPTS", "--depths", "0"], "depths 0"),
        (["--prompts", "PROMPTS", "--best", "0"], "best 0"),
        (["--prompts", "PROMPTS", "--exits", "9"], "exit 9 .* 6 layers, use 1 to 5"),
        (["--prompts", "PROMPTS", "--head", "some"], "head='some'"),
        (["--prompts", "PROMPTS", "--head", "9" * 5000], "head='9999"),
        (["--prompts", "PROMPTS", "--task", ""], "give --task NAME"),
        (["--prompts", "PROMPTS", "--task", "a "], "no spaces at its ends"),
        (["--prompts", "PROMPTS", "--csv", "/"], "--csv /: not a file in a folder that exists"),
        (["--prompts", "PROMPTS", "--png", "/nowhere/map.png"], "--png /nowhere/map.png: not a file"),
    ],
)
def test_what_cannot_be_swept_is_one_line(
    run: Run, trained: Path, prompts: Path, cache: Path, options: list[str], says: str
) -> None:
    words = [str(prompts) if word == "PROMPTS" else word for word in options]
    result = run("sweep", trained, *words, "--cache", cache)
    assert result.code == 2
    assert result.out == ""
    assert_says(result.err.splitlines()[-1], says)


def test_a_model_of_one_layer_has_no_exit(run: Run, prompts: Path, tmp_path: Path, cache: Path) -> None:
    shallow = tiny_folder(tmp_path / "shallow", layers=1)
    result = run("sweep", shallow, "--prompts", prompts, "--cache", cache)
    assert result.code == 2
    assert_says(result.err.splitlines()[-1], "one layer")


# lists and maps


def test_lists_of_numbers_may_hold_ranges() -> None:
    assert numbers("--depths", "2, 4-6,9") == (2, 4, 5, 6, 9)
    assert numbers("--depths", None) == ()


@pytest.mark.parametrize("given", ["", "4,", "a", "6-4", "1.5", "-3", "1-99999", "1-99999999999999999999"])
def test_what_is_no_list_of_numbers_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match=f'--depths "{given}" is no list of numbers'):
        numbers("--depths", given)


CELLS = {(2, 1): 0.8, (2, 4): 1.0, (4, 1): 1.3}


def test_a_map_has_a_row_for_each_exit_and_marks_the_best() -> None:
    table = coloured(CELLS, [2, 4], [1, 4], (4, 1))
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    assert columns == [["2", "4"], ["0.80 ", "1.30*"], ["1.00 ", ""]]


@pytest.mark.usefixtures("fast")
def test_a_sweep_whose_preset_cannot_be_kept_is_told_all_the_same(
    run: Run, trained: Path, prompts: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise StoreError("no space left on the disk")

    monkeypatch.setattr("skipstone.store.shelf.PlanShelf.keep_exit", full)
    asked = ["--depths", "2", "--max-new-tokens", 20, "--csv", tmp_path / "all.csv", "--cache", cache]
    result = run("sweep", trained, "--prompts", prompts, *asked)
    assert result.code == 1
    assert "no space left" in result.err
    assert "× plain decoding" in result.out
    assert (tmp_path / "all.csv").read_text().count("\n") > 1


def test_a_sweep_writes_over_no_pipe_and_not_twice_into_one_file(
    run: Run, trained: Path, prompts: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    asked = ["sweep", trained, "--prompts", prompts, "--csv"]
    assert_says(run(*asked, tmp_path / "pipe").err, "not a file")
    assert_says(run(*asked, tmp_path / "a", "--png", tmp_path / "a").err, "are the same file")


def test_faster_is_greener_and_slower_redder() -> None:
    slow, even, fast = colour(0.6), colour(1.0), colour(1.8)
    assert slow[0] > slow[1]
    assert fast[1] > fast[0]
    assert max(even) - min(even) < 10
    assert colour(9.0) == colour(2.0)
    assert colour(0.0) == colour(0.5)


def test_a_picture_grows_with_the_grid() -> None:
    assert picture(CELLS, [2, 4], [1, 4], (4, 1)).startswith(b"\x89PNG")
    assert picture(CELLS, [2, 4], [1, 4], (4, 1)) != picture(CELLS, [2, 4], [1, 4], None)
