"""``skipstone plans`` and ``skipstone tune``."""

from __future__ import annotations

import json
import signal
import struct
import time
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import Run, assert_says
from paying import layers_cost_everything, layers_cost_nothing
from tiny_folder import tiny_folder

from skipstone.cli.layer_map import drawn, picture
from skipstone.cli.patience import one_interrupt
from skipstone.errors import StoreError
from skipstone.hf.checkpoint import read_checkpoint
from skipstone.hf.fingerprint import fingerprint
from skipstone.plan import LayerPlan
from skipstone.search.found import Found
from skipstone.search.preset import ExitPreset
from skipstone.store import PlanShelf, cache_folders
from skipstone.text.tuning import Tuning

PLAN = LayerPlan.skipping(4, attn=[1, 2], mlp=[2])
FOUND = Found(PLAN, depth=5, speed=1.4, matchness=0.94, acceptance=0.9, tokens=300, settled=True)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def plans(folder: Path, cache: Path) -> Path:
    """A cache that has plans of the tiny model for two tasks; its plan file."""
    name = fingerprint(read_checkpoint(folder))
    where = cache_folders(cache).plans
    shelf = PlanShelf(where, str(folder), 4, lambda: name, lambda: "a machine", lambda line: None)
    shelf.keep("stories", FOUND)
    shelf.keep("", FOUND)
    return where / f"{name}.json"


def test_what_is_kept_is_listed(run: Run, plans: Path, cache: Path) -> None:
    result = run("plans", "list", "--cache", cache)
    assert "stories" in result.out
    assert plans.stem[:12] in result.out
    entries = json.loads(run("plans", "list", "--json", "--cache", cache).out)
    assert [(entry["task"], entry["attn"], entry["mlp"], entry["layers"]) for entry in entries] == [
        ("", [1, 2], [2], 4),
        ("stories", [1, 2], [2], 4),
    ]


def test_a_plan_of_several_machines_is_listed_with_its_slowest_and_fastest(
    run: Run, presets: Path, folder: Path, cache: Path
) -> None:
    other = PlanShelf(presets.parent, str(folder), 4, lambda: presets.stem, lambda: "another", lambda line: None)
    other.keep_exit("stories", ExitPreset(1, 3, 2, "128", agreement=0.61, tokens=90, speed=1.5))
    assert "1.25–1.50" in run("plans", "list", "--cache", cache).out


def test_an_empty_list_says_how_to_fill_it(run: Run, cache: Path) -> None:
    assert "skipstone tune" in run("plans", "list", "--cache", cache).out
    assert run("plans", "list", "--json", "--cache", cache).out == "[]\n"


def test_a_plan_is_shown_layer_by_layer_with_what_it_promises(run: Run, plans: Path, cache: Path, folder: Path) -> None:
    shown = run("plans", "show", folder, "--task", "stories", "--cache", cache).out
    assert "attn  █··█" in shown or "attn  #..#" in shown
    assert "mlp   ██·█" in shown or "mlp   ##.#" in shown
    assert "1.40 × plain decoding, 5 tokens a draft, on a machine" in shown
    assert "matchness 0.94" in shown


def test_one_token_a_draft_is_one(run: Run, plans: Path, cache: Path) -> None:
    plans.write_text(plans.read_text().replace('"depth": 5', '"depth": 1'))
    assert "1 token a draft, on" in run("plans", "show", plans.stem, "--cache", cache).out


def test_a_model_is_known_by_its_fingerprint_too(run: Run, plans: Path, cache: Path, folder: Path) -> None:
    by_folder = run("plans", "show", folder, "--json", "--cache", cache).out
    assert run("plans", "show", plans.stem[:12], "--json", "--cache", cache).out == by_folder
    assert len(json.loads(by_folder)) == 2


@pytest.fixture
def presets(plans: Path, folder: Path, cache: Path) -> Path:
    """The same cache with an exit preset of task stories."""
    shelf = PlanShelf(plans.parent, str(folder), 4, lambda: plans.stem, lambda: "a machine", lambda line: None)
    shelf.keep_exit("stories", ExitPreset(1, 3, 2, "128", agreement=0.61, tokens=90, speed=1.25))
    return plans


def test_exit_presets_are_listed_and_shown_beside_plans(run: Run, presets: Path, cache: Path, folder: Path) -> None:
    listed = run("plans", "list", "--cache", cache).out
    assert "exit 1, 3 tokens a draft, 2 choices of each" in listed
    assert "skip: 2 attn, 1 MLP out" in listed
    assert "1.25" in next(line for line in listed.splitlines() if "exit 1" in line)  # its speed
    entries = json.loads(run("plans", "show", folder, "--task", "stories", "--json", "--cache", cache).out)
    assert [(entry["kind"], entry["task"]) for entry in entries] == [("skip", "stories"), ("exit", "stories")]
    assert entries[1]["speeds"] == {"a machine": 1.25}
    shown = run("plans", "show", folder, "--cache", cache).out
    assert "exits after layer 1 of 4" in shown
    assert "its head is of 128 words" in shown
    assert "1.25 × plain decoding, measured on a machine" in shown
    assert "matchness 0.94" in shown


def test_exit_presets_move_and_go_with_their_task(
    run: Run, presets: Path, cache: Path, folder: Path, tmp_path: Path
) -> None:
    file, there = tmp_path / "plans.json", tmp_path / "there"
    run("plans", "export", folder, file, "--task", "stories", "--cache", cache)
    assert run("plans", "import", folder, file, "--cache", there).code == 0
    kinds = lambda where: [e["kind"] for e in json.loads(run("plans", "list", "--json", "--cache", where).out)]  # noqa: E731
    assert kinds(there) == ["skip", "exit"]
    run("plans", "forget", folder, "--task", "stories", "--cache", cache)
    assert kinds(cache) == ["skip"]


def test_a_preset_is_no_picture(run: Run, cache: Path, folder: Path, presets: Path, tmp_path: Path) -> None:
    run("plans", "forget", folder, "--cache", cache)
    shelf = PlanShelf(presets.parent, str(folder), 4, lambda: presets.stem, lambda: "a machine", lambda line: None)
    shelf.keep_exit("", ExitPreset(1, 3))
    says = run("plans", "show", folder, "--png", tmp_path / "plan.png", "--cache", cache).error
    assert_says(says, "--png draws one plan, but none is kept")


def test_plans_outlive_their_model_under_its_name(run: Run, plans: Path, cache: Path, folder: Path) -> None:
    text = plans.read_text().replace(str(folder), "gone")
    plans.write_text(text)
    assert run("plans", "show", "gone", "--cache", cache).code == 0


def test_a_plan_is_drawn_as_a_picture(run: Run, plans: Path, cache: Path, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.png"
    assert run("plans", "show", folder, "--task", "", "--png", file, "--cache", cache).code == 0
    assert file.read_bytes() == picture(PLAN)
    both = run("plans", "show", folder, "--png", file, "--cache", cache)
    assert_says(both.error, '--png draws one plan, but 2 are kept: .*--task "" is the one listed as "\\(none\\)"')


def test_what_is_exported_can_be_imported_elsewhere(
    run: Run, plans: Path, cache: Path, folder: Path, tmp_path: Path
) -> None:
    file, there = tmp_path / "plans.json", tmp_path / "there"
    assert run("plans", "export", folder, file, "--task", "stories", "--cache", cache).code == 0
    assert run("plans", "import", folder, file, "--cache", there).code == 0
    entries = json.loads(run("plans", "list", "--json", "--cache", there).out)
    assert [(entry["task"], entry["attn"]) for entry in entries] == [("stories", [1, 2])]
    assert json.loads(run("plans", "export", folder, "--cache", there).out)["tasks"].keys() == {"stories"}


def test_an_export_tells_what_was_written_where_and_not_in_the_output(
    run: Run, plans: Path, cache: Path, folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "plans.json"
    result = run("plans", "export", folder, file, "--task", "stories", "--cache", cache)
    assert (result.out, result.err) == ("", f"what is kept for task stories of {folder}: written to {file}\n")
    assert run("plans", "export", folder, "--cache", cache).err == ""


def test_plans_are_imported_by_fingerprint_where_some_are_kept_or_where_it_is_that_of_the_file(
    run: Run, plans: Path, cache: Path, tmp_path: Path
) -> None:
    file, there = tmp_path / "plans.json", tmp_path / "there"
    run("plans", "export", plans.stem[:12], file, "--cache", cache)
    run("plans", "forget", plans.stem[:12], "--task", "stories", "--cache", cache)
    for where in (cache, there):
        assert run("plans", "import", plans.stem[:12], file, "--cache", where).code == 0
        entries = json.loads(run("plans", "list", "--json", "--cache", where).out)
        assert {entry["task"] for entry in entries} == {"", "stories"}
    assert_says(run("plans", "import", "0123456789ab", file, "--cache", cache).error, "0123456789ab")


def test_plans_of_another_model_are_not_imported_by_the_fingerprint_of_one_that_is_kept(
    run: Run, plans: Path, cache: Path, tmp_path: Path
) -> None:
    file = tmp_path / "other.json"
    file.write_text(plans.read_text().replace(plans.stem, "0" * 32))
    assert_says(run("plans", "import", plans.stem, file, "--cache", cache).error, "holds plans of .*0000\\), not of ")


def test_a_task_that_a_file_has_not_is_told_of_the_file(
    run: Run, plans: Path, cache: Path, folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "out.json"
    run("plans", "export", folder, file, "--cache", cache)
    says = run("plans", "import", folder, file, "--task", "new", "--cache", cache).error
    assert_says(says, 'out.json holds no plan for task "new": known: \\(none\\), stories')


def test_plans_of_another_model_are_not_imported(
    run: Run, plans: Path, cache: Path, folder: Path, tmp_path: Path
) -> None:
    other = tiny_folder(tmp_path / "other", layers=5)
    assert_says(run("plans", "import", other, plans, "--cache", cache).error, "holds plans of .*, not of .*other")


def test_a_plan_of_absent_layers_is_not_imported(run: Run, plans: Path, cache: Path, folder: Path) -> None:
    value = json.loads(plans.read_text())
    for layers, says in ((4, "leaves out layer 7"), (8, "8 layers, but it has 4")):
        value["layers"], value["tasks"][""]["mlp"] = layers, [7]
        file = plans.with_name("edited")
        file.write_text(json.dumps(value))
        assert_says(run("plans", "import", folder, file, "--cache", cache).error, says)


def test_one_task_or_all_are_forgotten(run: Run, plans: Path, cache: Path, folder: Path) -> None:
    assert "stories" in run("plans", "forget", folder, "--task", "stories", "--cache", cache).out
    assert [entry["task"] for entry in json.loads(run("plans", "list", "--json", "--cache", cache).out)] == [""]
    assert run("plans", "forget", folder, "--cache", cache).code == 0
    assert not plans.exists()


def test_a_task_of_no_plan_is_refused_with_the_nearest(run: Run, plans: Path, cache: Path, folder: Path) -> None:
    for command in ("show", "export", "forget"):
        says = run("plans", command, folder, "--task", "storys", "--cache", cache).error
        assert_says(says, 'no plan is kept for task "storys": did you mean "stories"')


def test_a_model_of_no_plan_is_told_what_finds_one(run: Run, cache: Path, folder: Path) -> None:
    assert_says(
        run("plans", "show", folder, "--cache", cache).error, "is kept: skipstone tune .* --prompts FILE searches for"
    )
    assert_says(run("plans", "show", "nowhere", "--cache", cache).error, "nowhere")


def test_a_damaged_store_is_told_and_set_aside(run: Run, plans: Path, cache: Path) -> None:
    plans.write_text("{")
    result = run("plans", "list", "--cache", cache)
    assert result.code == 0
    assert "kept plans cannot be used" in result.err
    assert not plans.exists()


def test_a_drawing_is_wrapped_to_the_terminal_and_plain_where_it_must_be() -> None:
    plan = LayerPlan.skipping(25, attn=[3, 24], mlp=[10])
    wide, narrow = drawn(plan, 80, "utf-8"), drawn(plan, 20, "ascii")
    assert wide.splitlines() == [
        "layer 0         10        20",
        "attn  ███·████████████████████·",
        "mlp   ██████████·██████████████",
        "",
        "█ run  · skipped",
    ]
    assert narrow.split("\n\n")[1] == "layer 10\nattn  ##########\nmlp   .#########"
    assert narrow.split("\n\n")[2].endswith("attn  ####.\nmlp   #####")
    assert narrow.endswith("\n\n# run  . skipped")
    assert max(map(len, narrow.splitlines())) <= 20


def test_a_picture_has_a_cell_for_each_sublayer_numbers_labels_and_a_legend() -> None:
    rows = _pixels(picture(LayerPlan.skipping(12, attn=[1, 2], mlp=[2])))
    paper, cell = rows[0][0], 16 * 24
    area = {colour: sum(row.count(colour) for row in rows) for colour in {pixel for row in rows for pixel in row}}
    assert paper == (255, 255, 255)
    assert sorted(area.values())[1:-1] == [4 * cell, 11 * cell, 12 * cell]  # each with one in the legend
    written = min(area, key=lambda colour: area[colour])
    assert any(written in row[:60] for row in rows[28:52])  # attn
    assert any(written in row[:60] for row in rows[54:78])  # mlp
    numbers = {x // 18 for row in rows[:28] for x, pixel in enumerate(row[82:]) if pixel == written}
    assert numbers == {0, 5, 10, 11}  # the last has two digits
    assert any(written in row[82:] for row in rows[88:])  # the legend


def test_a_picture_of_few_layers_has_room_for_its_legend() -> None:
    assert len(_pixels(picture(PLAN))[0]) == len(_pixels(picture(LayerPlan.skipping(3, attn=[1], mlp=[])))[0])


def _pixels(data: bytes) -> list[list[tuple[int, ...]]]:
    """Rows of red, green and blue."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    start = data.index(b"IDAT") + 4
    size = struct.unpack(">I", data[start - 8 : start - 4])[0]
    raw, line = zlib.decompress(data[start : start + size]), 1 + 3 * width
    assert len(raw) == height * line
    return [[tuple(raw[y + 1 + 3 * x : y + 4 + 3 * x]) for x in range(width)] for y in range(0, len(raw), line)]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.txt"
    path.write_text("the and the\nand the and\nin the an\n")
    return path


@pytest.fixture
def deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    layers_cost_everything(monkeypatch)
    return tiny_folder(tmp_path / "deep", layers=6)


def test_tune_finds_keeps_and_shows_a_plan(run: Run, deep: Path, prompts: Path, cache: Path) -> None:
    result = run("tune", deep, "--prompts", prompts, "--task", "stories", "--max-new-tokens", 60, "--cache", cache)
    assert result.code == 0, result.err
    assert "task stories" in result.out
    assert "× plain decoding" in result.out
    entry = json.loads(run("plans", "show", deep, "--json", "--cache", cache).out)[0]
    assert entry["task"] == "stories"
    assert entry["attn"] or entry["mlp"]
    as_json = json.loads(
        run("tune", deep, "--prompts", prompts, "--max-new-tokens", 60, "--json", "--cache", cache).out
    )
    assert as_json["trials"] > 0
    assert as_json["kept"]["task"] == ""


def test_an_interrupted_search_keeps_what_it_found(
    run: Run, deep: Path, prompts: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Tuning._look

    def interrupted(self: Tuning) -> None:
        look(self)
        if self.found is not None:
            self.found = replace(self.found, settled=False)  # whatever the search had come to by then
            raise KeyboardInterrupt

    monkeypatch.setattr(Tuning, "_look", interrupted)
    result = run("tune", deep, "--prompts", prompts, "--cache", cache)
    assert result.code == 130
    assert "× plain decoding" in result.out
    assert json.loads(run("plans", "list", "--json", "--cache", cache).out)[0]["settled"] is False


def test_a_second_interrupt_in_haste_does_not_lose_what_was_found(
    run: Run, deep: Path, prompts: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, to_keep = Tuning._look, PlanShelf.to_keep

    def interrupted(self: Tuning) -> None:
        look(self)
        if self.found is not None:
            self.found = replace(self.found, settled=False)
            signal.raise_signal(signal.SIGINT)

    def again(*given: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return to_keep(*given)

    monkeypatch.setattr(Tuning, "_look", interrupted)
    monkeypatch.setattr(PlanShelf, "to_keep", again)
    before = signal.getsignal(signal.SIGINT)
    assert run("tune", deep, "--prompts", prompts, "--cache", cache).code == 130
    assert len(json.loads(run("plans", "list", "--json", "--cache", cache).out)) == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_that_comes_later_counts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with one_interrupt():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        now[0] = 3.0
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes no plan."""

    def keep(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(PlanShelf, "keep", keep)


def test_a_plan_that_cannot_be_kept_is_shown_all_the_same(
    run: Run, deep: Path, prompts: Path, cache: Path, full: None
) -> None:
    result = run("tune", deep, "--prompts", prompts, "--max-new-tokens", 60, "--cache", cache)
    assert result.code == 1
    assert "× plain decoding" in result.out
    assert result.err.splitlines()[-1] == "error: the disk is full"
    result = run("tune", deep, "--prompts", prompts, "--max-new-tokens", 60, "--json", "--cache", cache)
    shown = json.loads(result.out)
    assert result.code == 1
    assert shown["kept"] is None
    assert shown["found"]["attn"] or shown["found"]["mlp"]


@pytest.mark.parametrize(("ends", "code"), [(KeyboardInterrupt, 130), (MemoryError, 1)])
def test_a_search_that_ends_badly_on_a_full_disk_shows_the_plan_and_says_that_it_is_not_kept(
    run: Run, deep: Path, prompts: Path, cache: Path, full: None, monkeypatch: Any, ends: Any, code: int
) -> None:
    look = Tuning._look

    def ended(self: Tuning) -> None:
        look(self)
        if self.found is not None:
            raise ends

    monkeypatch.setattr(Tuning, "_look", ended)
    result = run("tune", deep, "--prompts", prompts, "--cache", cache)
    assert result.code == code
    assert "× plain decoding" in result.out
    assert "the plan found is not kept: the disk is full" in result.err
    assert ("interrupted" in result.err) == (ends is KeyboardInterrupt)


def test_a_plan_is_kept_where_nobody_reads_what_is_said_of_it(
    run: Run, deep: Path, prompts: Path, cache: Path, monkeypatch: Any
) -> None:
    def unread(*_: object) -> str:
        raise BrokenPipeError

    monkeypatch.setattr("skipstone.cli.tuning.description", unread)
    run("tune", deep, "--prompts", prompts, "--max-new-tokens", 60, "--cache", cache)
    assert len(json.loads(run("plans", "list", "--json", "--cache", cache).out)) == 1


def test_tune_says_when_nothing_pays(run: Run, folder: Path, prompts: Path, cache: Path, monkeypatch: Any) -> None:
    layers_cost_nothing(monkeypatch)
    result = run("tune", folder, "--prompts", prompts, "--max-new-tokens", 50, "--cache", cache)
    assert (result.code, "no plan pays here" in result.out) == (0, True)
    assert run("plans", "list", "--json", "--cache", cache).out == "[]\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "give a file of them with --prompts"),
        (["--prompts", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["--prompts", "PROMPTS", "--max-new-tokens", "0"], "--max-new-tokens 0"),
        (["--prompts", "PROMPTS", "--task", "a,b"], "is no label"),
    ],
)
def test_what_cannot_be_tuned_with_is_one_line(
    run: Run, folder: Path, prompts: Path, options: list[str], says: str
) -> None:
    words = [str(prompts) if word == "PROMPTS" else word for word in options]
    assert_says(run("tune", folder, *words).error, says)


def test_a_model_too_shallow_to_skip_is_not_tuned(run: Run, prompts: Path, tmp_path: Path) -> None:
    shallow = tiny_folder(tmp_path / "shallow", layers=2)
    result = run("tune", shallow, "--prompts", prompts, "--cache", tmp_path / "cache")
    assert result.code == 2
    assert_says(result.err.splitlines()[-1], "2 layers, and none between")
