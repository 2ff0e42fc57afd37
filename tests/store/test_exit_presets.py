"""Exit presets lie beside skip plans, in the same file, and neither disturbs the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skipstone.errors import CheckpointError, PlanError, StoreError, UsageError
from skipstone.plan import LayerPlan
from skipstone.search.found import Found, Warm
from skipstone.search.preset import ExitPreset
from skipstone.store import KeptExit, ModelPlans, PlanFile, PlanShelf, change_plans, load_plans

PRINT = "0a" * 16
PRESET = ExitPreset(layer=2, depth=4, width=2, head="512", agreement=0.62, tokens=900, speed=1.3)
FOUND = Found(LayerPlan.skipping(6, attn=[1]), 5, 1.4, 0.94, 0.9, 300, True)


def shelf(folder: Path, said: Any, machine: str = "here", identify: Callable[[], str] = lambda: PRINT) -> PlanShelf:
    return PlanShelf(folder, "tiny", 6, identify, lambda: machine, said)


def kept() -> ModelPlans:
    return ModelPlans(PRINT, 6, "tiny", exits={"stories": KeptExit.of(PRESET, "here")})


def test_a_preset_that_was_put_is_what_the_next_process_gets(tmp_path: Path, said: Any) -> None:
    shelf(tmp_path, said).put_exit("stories", PRESET)
    assert shelf(tmp_path, said).get_exit("stories") == PRESET
    assert shelf(tmp_path, said).get_exit("") is None
    assert not said


def test_a_task_may_have_a_skip_plan_and_a_preset(tmp_path: Path, said: Any) -> None:
    one = shelf(tmp_path, said)
    one.put_exit("stories", PRESET)
    one.put("stories", FOUND)
    one.put_exit("", replace(PRESET, depth=2))
    assert one.get("stories") == Warm(FOUND.plan, settled=True)
    assert one.get_exit("stories") == PRESET
    assert one.get("") is None
    plans = load_plans(tmp_path, ModelPlans(PRINT, 6), said)
    assert plans is not None
    assert plans.labels == ["stories", ""]


def test_the_newest_preset_of_a_task_is_kept(tmp_path: Path, said: Any) -> None:
    shelf(tmp_path, said).put_exit("", PRESET)
    shelf(tmp_path, said).put_exit("", replace(PRESET, layer=3))
    assert shelf(tmp_path, said).get_exit("") == replace(PRESET, layer=3)


def test_a_speed_holds_on_its_own_machine_only(tmp_path: Path, said: Any) -> None:
    shelf(tmp_path, said, "here").put_exit("", PRESET)
    assert shelf(tmp_path, said, "there").get_exit("") == replace(PRESET, speed=None)
    shelf(tmp_path, said, "there").put_exit("", replace(PRESET, speed=2.0))
    assert shelf(tmp_path, said, "here").get_exit("") == PRESET
    assert shelf(tmp_path, said, "there").get_exit("") == replace(PRESET, speed=2.0)


def test_another_draft_takes_the_old_ones_speeds_with_it(tmp_path: Path, said: Any) -> None:
    shelf(tmp_path, said, "here").put_exit("", PRESET)
    shelf(tmp_path, said, "there").put_exit("", replace(PRESET, depth=9))
    assert shelf(tmp_path, said, "here").get_exit("") == replace(PRESET, depth=9, speed=None)


def test_what_is_written_is_read_as_it_was() -> None:
    assert ModelPlans.from_json(json.loads(json.dumps(kept().to_json()))) == kept()


def test_a_file_of_before_there_were_presets_is_read(tmp_path: Path, said: Any) -> None:
    one = shelf(tmp_path, said)
    one.put("", FOUND)
    path = tmp_path / f"{PRINT}.json"
    value = json.loads(path.read_text())
    del value["exits"]
    path.write_text(json.dumps(value))
    assert one.get("") == Warm(FOUND.plan, settled=True)
    assert one.get_exit("") is None
    assert not said


def test_a_version_that_knows_no_presets_can_read_a_file_with_some() -> None:
    value = kept().to_json()
    assert (value["format"], value["tasks"]) == (1, {})


def _entry(**changes: Any) -> Callable[[str], str]:
    def edit(text: str) -> str:
        value = json.loads(text)
        value["exits"]["stories"].update(changes)
        return json.dumps(value)

    return edit


DAMAGES = [
    _entry(layer=6),
    _entry(layer=0),
    _entry(depth=0),
    _entry(width="2"),
    _entry(head=512),
    _entry(head="whole"),
    _entry(agreement=1.5),
    _entry(tokens=None),
    _entry(date=7),
    _entry(speeds=[1.4]),
    _entry(speeds={"here": "fast"}),
    _entry(speeds={"here": 10**400}),
    _entry(depth=10**400),
    _entry(head="9" * 5000),
    _entry(date="\x1b[31mred"),
    lambda text: text.replace('"stories"', '"sto\\nries"'),
    lambda text: text.replace('"exits": {', '"exits": [], "other": {'),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_preset_is_told_set_aside_and_started_afresh(tmp_path: Path, said: Any, damage: Any) -> None:
    one = shelf(tmp_path, said)
    one.put_exit("stories", PRESET)
    path = tmp_path / f"{PRINT}.json"
    path.write_text(damage(path.read_text()))
    assert one.get_exit("stories") is None
    assert len(said) == 1
    assert not path.exists()
    one.put_exit("stories", PRESET)
    assert one.get_exit("stories") == PRESET


def test_a_disk_that_cannot_be_written_is_told_once_and_stops_nothing(tmp_path: Path, said: Any) -> None:
    (tmp_path / "plans").write_text("in the way")
    one = shelf(tmp_path / "plans", said)
    assert one.get_exit("") is None
    one.put_exit("", PRESET)
    one.put_exit("", PRESET)
    assert sum("not kept" in line for line in said) == 1
    with pytest.raises(StoreError):
        one.keep_exit("", PRESET)


def test_a_model_that_cannot_be_told_from_others_has_no_presets(tmp_path: Path, said: Any) -> None:
    def identify() -> str:
        raise CheckpointError("its files are gone")

    one = shelf(tmp_path, said, identify=identify)
    assert one.get_exit("") is None
    one.put_exit("", PRESET)
    assert said == ["plans are not kept: its files are gone"]
    with pytest.raises(StoreError, match="the exit preset is not kept"):
        one.keep_exit("", PRESET)


def test_a_preset_of_absent_layers_is_not_kept(tmp_path: Path, said: Any) -> None:
    with pytest.raises(PlanError, match=r"exit 6 .* tiny has 6 layers"):
        shelf(tmp_path, said).keep_exit("", replace(PRESET, layer=6))
    assert not list(tmp_path.iterdir())


def test_presets_of_another_number_of_layers_are_set_aside(tmp_path: Path, said: Any) -> None:
    shelf(tmp_path, said).put_exit("", PRESET)
    other = PlanShelf(tmp_path, "tiny", 7, lambda: PRINT, lambda: "here", said)
    assert other.get_exit("") is None
    assert "for 6 layers, but the model has 7" in said[0]
    assert (tmp_path / f".{PRINT}.json.damaged").exists()


def test_both_kinds_are_forgotten_by_task_and_the_last_takes_the_file_away(tmp_path: Path, said: Any) -> None:
    one = shelf(tmp_path, said)
    one.put_exit("stories", PRESET)
    one.put("stories", FOUND)
    one.put_exit("", PRESET)
    empty = ModelPlans(PRINT, 6)
    left = change_plans(tmp_path, empty, lambda plans: plans.without("stories"), said)
    assert (left.labels, list(left.exits)) == ([""], [""])
    change_plans(tmp_path, empty, lambda plans: plans.without(""), said)
    assert not (tmp_path / f"{PRINT}.json").exists()


def test_a_file_of_presets_alone_can_be_taken_in(tmp_path: Path) -> None:
    path = tmp_path / "presets.json"
    path.write_text(json.dumps(kept().to_json()))
    assert PlanFile.read(path).plans_for(ModelPlans(PRINT, 6, "mine")).exit("stories").preset == replace(
        PRESET, speed=None
    )


def test_an_unknown_task_is_refused_with_the_nearest_one() -> None:
    for ask in (kept().exit, kept().only, kept().without):
        with pytest.raises(UsageError, match='did you mean "stories"'):
            ask("storys")
    with pytest.raises(UsageError, match="no exit preset of tiny is kept: skipstone sweep"):
        ModelPlans(PRINT, 6, "tiny").exit("stories")


@pytest.mark.parametrize("wrong", [{"layer": 0}, {"depth": 0}, {"width": 0}, {"head": "0"}, {"head": "some"}])
def test_a_preset_that_can_draft_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        replace(PRESET, **wrong)
