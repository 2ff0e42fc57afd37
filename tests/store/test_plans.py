"""Plans are kept by model and task, whole, and nothing that is wrong with the disk stops who generates."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skipstone.errors import CheckpointError, PlanError, StoreError, UsageError
from skipstone.plan import LayerPlan
from skipstone.search.found import Found, Warm
from skipstone.store import KeptPlan, ModelPlans, PlanFile, PlanShelf, all_plans, change_plans, load_plans
from skipstone.store import plans as plans_module
from skipstone.store.atomic import locked
from skipstone.store.plans import read_plans

PRINT, OTHER = "0a" * 16, "1b" * 16
PLAN = LayerPlan.skipping(6, attn=[1, 2, 4], mlp=[2])
FOUND = Found(PLAN, depth=5, speed=1.4, matchness=0.94, acceptance=0.9, tokens=300, settled=True)
Said = Callable[[str], None]


def shelf(folder: Path, said: Said, machine: str = "here", identify: Callable[[], str] = lambda: PRINT) -> PlanShelf:
    return PlanShelf(folder, "tiny", 6, identify, lambda: machine, said)


def kept(found: Found = FOUND, machine: str = "here") -> ModelPlans:
    return ModelPlans(PRINT, 6, "tiny", {"stories": KeptPlan.of(found, machine)})


def written(folder: Path, plans: ModelPlans, said: Said) -> Path:
    change_plans(folder, plans, lambda _: plans, said)
    return folder / f"{plans.fingerprint}.json"


def test_a_plan_that_was_put_is_what_the_next_process_begins_with(tmp_path: Path, said: Any) -> None:
    shelf(tmp_path, said).put("stories", FOUND)
    assert shelf(tmp_path, said).get("stories") == Warm(PLAN, settled=True)
    assert shelf(tmp_path, said).get("") is None
    assert not said


def test_a_model_has_a_plan_for_each_task(tmp_path: Path, said: Any) -> None:
    other = replace(FOUND, plan=LayerPlan.skipping(6, attn=[3]), settled=False)
    one = shelf(tmp_path, said)
    one.put("stories", FOUND)
    one.put("", other)
    plans = load_plans(tmp_path, ModelPlans(PRINT, 6), said)
    assert plans is not None
    assert {task: kept.plan for task, kept in plans.tasks.items()} == {"stories": PLAN, "": other.plan}
    assert one.get("") == Warm(other.plan, settled=False)


def test_what_a_plan_promises_is_kept_for_each_machine(tmp_path: Path, said: Any) -> None:
    shelf(tmp_path, said, "here").put("", FOUND)
    shelf(tmp_path, said, "there").put("", replace(FOUND, speed=2.0, depth=8))
    plans = load_plans(tmp_path, ModelPlans(PRINT, 6), said)
    assert plans is not None
    assert {machine: (p.speed, p.depth) for machine, p in plans.task("").promises.items()} == {
        "here": (1.4, 5),
        "there": (2.0, 8),
    }


def test_another_plan_takes_the_old_ones_promises_with_it(tmp_path: Path, said: Any) -> None:
    shelf(tmp_path, said, "here").put("", FOUND)
    shelf(tmp_path, said, "there").put("", replace(FOUND, plan=LayerPlan.skipping(6, mlp=[1])))
    plans = load_plans(tmp_path, ModelPlans(PRINT, 6), said)
    assert plans is not None
    assert set(plans.task("").promises) == {"there"}


def test_the_file_is_written_where_there_is_news_only(tmp_path: Path, said: Any) -> None:
    one = shelf(tmp_path, said)
    one.put("", FOUND)
    path = tmp_path / f"{PRINT}.json"
    path.unlink()
    one.put("", replace(FOUND, tokens=500))
    assert not path.exists()
    one.put("", replace(FOUND, tokens=600))
    assert path.exists()


def test_a_plan_seen_long_is_not_replaced_by_the_same_plan_seen_briefly(tmp_path: Path, said: Any) -> None:
    shelf(tmp_path, said).put("", replace(FOUND, tokens=100_000))
    path = tmp_path / f"{PRINT}.json"
    before = path.stat().st_mtime_ns, path.stat().st_ino
    shelf(tmp_path, said).put("", replace(FOUND, tokens=40, speed=3.0, acceptance=0.1))
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before  # not even written again
    shelf(tmp_path, said).put("", replace(FOUND, tokens=200_000, acceptance=0.8))
    plans = load_plans(tmp_path, ModelPlans(PRINT, 6), said)
    assert plans is not None
    assert (plans.task("").tokens, plans.task("").acceptance) == (200_000, 0.8)


def test_a_brief_look_adds_what_was_not_known_of_a_plan(tmp_path: Path, said: Any) -> None:
    shelf(tmp_path, said).put("", replace(FOUND, tokens=100_000, settled=False))
    shelf(tmp_path, said, "there").put("", replace(FOUND, tokens=40))
    plans = load_plans(tmp_path, ModelPlans(PRINT, 6), said)
    assert plans is not None
    assert (plans.task("").tokens, plans.task("").settled) == (100_000, True)
    assert set(plans.task("").promises) == {"here", "there"}


def test_another_plan_takes_the_place_of_one_seen_longer(tmp_path: Path, said: Any) -> None:
    shelf(tmp_path, said).put("", replace(FOUND, tokens=100_000))
    shelf(tmp_path, said).put("", replace(FOUND, plan=LayerPlan.skipping(6, mlp=[1]), tokens=40))
    assert shelf(tmp_path, said).get("") == Warm(LayerPlan.skipping(6, mlp=[1]), settled=True)


def test_a_plan_that_could_not_be_written_is_written_at_the_next_generation(tmp_path: Path, said: Any) -> None:
    folder = tmp_path / "plans"
    folder.write_text("in the way")
    one = shelf(folder, said)
    one.put("", FOUND)
    folder.unlink()
    one.put("", FOUND)
    assert one.get("") == Warm(PLAN, settled=True)


def test_what_is_written_is_read_as_it_was(tmp_path: Path, said: Any) -> None:
    written(tmp_path, kept(), said)
    again = load_plans(tmp_path, ModelPlans(PRINT, 6), said)
    assert again is not None
    assert ModelPlans.from_json(json.loads(json.dumps(again.to_json()))) == again


def _edited(**changes: Any) -> Callable[[str], str]:
    return lambda text: json.dumps({**json.loads(text), **changes})


def _entry(**changes: Any) -> Callable[[str], str]:
    def edit(text: str) -> str:
        value = json.loads(text)
        value["tasks"]["stories"].update(changes)
        return json.dumps(value)

    return edit


DAMAGES = [
    lambda text: "",
    lambda text: text[: len(text) // 2],
    lambda text: "[" * 100_000,
    lambda text: "[]",
    lambda text: "null",
    _edited(format=0),
    _edited(format="99"),
    _edited(fingerprint=OTHER),
    _edited(fingerprint="../../elsewhere"),
    _edited(tasks=[]),
    _edited(layers=2),
    _edited(layers=7),
    _edited(layers=10**9),
    _edited(tasks={}),
    _edited(layers="6"),
    _entry(attn=[1, -1]),
    _entry(attn="1+2"),
    _entry(attn=[True]),
    _entry(mlp=[6]),
    _entry(attn=[], mlp=[]),
    _entry(matchness=1.5),
    _entry(acceptance=float("nan")),
    _entry(tokens=None),
    _entry(date=7),
    _entry(promises={"here": 1.4}),
    _entry(promises={"here": {"speed": "fast", "depth": 4}}),
    _entry(promises={"\x1b[31mhere": {"speed": 1.4, "depth": 4}}),
    lambda text: text.replace('"stories"', '" stories"'),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_told_set_aside_and_started_afresh(tmp_path: Path, said: Any, damage: Any) -> None:
    path = written(tmp_path, kept(), said)
    path.write_text(damage(path.read_text()))
    one = shelf(tmp_path, said)
    assert one.get("stories") is None
    assert len(said) == 1
    assert str(path) in said[0]
    assert not path.exists()
    assert (tmp_path / f".{path.name}.damaged").exists()
    one.put("stories", FOUND)
    assert one.get("stories") == Warm(PLAN, settled=True)
    assert len(said) == 1


def test_a_pipe_in_the_place_of_a_file_is_told_and_passed_over(tmp_path: Path, said: Any) -> None:
    os.mkfifo(tmp_path / f"{PRINT}.json")
    written(tmp_path, replace(kept(), fingerprint=OTHER), said)
    assert [plans.fingerprint for plans in all_plans(tmp_path, said)] == [OTHER]
    assert "no ordinary file" in said[0]


def test_a_folder_of_plans_that_is_none_is_an_error(tmp_path: Path, said: Any) -> None:
    assert all_plans(tmp_path / "none", said) == []
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "plans"):
        with pytest.raises(StoreError, match="Not a directory"):
            all_plans(folder, said)


def test_a_plan_file_that_is_a_link_stays_one(tmp_path: Path, said: Any) -> None:
    target, link = tmp_path / "shared.json", tmp_path / f"{PRINT}.json"
    link.symlink_to(target)
    written(tmp_path, kept(), said)
    assert link.is_symlink()
    assert read_plans(target) == kept()


def test_the_line_says_where_a_damaged_file_went(tmp_path: Path, said: Any) -> None:
    path = written(tmp_path, kept(), said)
    path.write_text("{")
    assert load_plans(tmp_path, ModelPlans(PRINT, 6), said) is None
    assert said[0].endswith(f"set aside as {tmp_path / f'.{path.name}.damaged'}")


def test_a_file_that_another_process_has_mended_meanwhile_is_read_not_set_aside(
    tmp_path: Path, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, kept(), said)
    good, plans, reads = path.read_text(), read_plans(path), list[Path]()
    path.write_text("{")

    def mended_after(file: Path) -> ModelPlans:
        reads.append(file)
        try:
            return read_plans(file)
        finally:
            path.write_text(good)

    monkeypatch.setattr(plans_module, "read_plans", mended_after)
    assert load_plans(tmp_path, ModelPlans(PRINT, 6), said) == plans
    assert (len(reads), said) == (2, [])
    assert not (tmp_path / f".{path.name}.damaged").exists()


def test_nothing_is_set_aside_while_another_process_writes(tmp_path: Path, said: Any) -> None:
    path = written(tmp_path, kept(), said)
    good, plans = path.read_text(), read_plans(path)
    path.write_text("{")
    with ThreadPoolExecutor(1) as pool:
        with locked(path, said):
            reader = pool.submit(load_plans, tmp_path, ModelPlans(PRINT, 6), said)
            assert not wait([reader], timeout=0.3).done
            path.write_text(good)
        assert reader.result(timeout=30) == plans


def test_a_damaged_file_whose_lock_cannot_be_had_is_told_and_stops_nothing(
    tmp_path: Path, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, kept(), said)
    path.write_text("{")
    lock = tmp_path / f".{path.name}.lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()
    assert load_plans(tmp_path, ModelPlans(PRINT, 6), said) is None
    assert len(said) == 1
    assert str(path) in said[0]
    assert path.read_text() == "{"


def test_files_that_are_no_plan_files_by_their_name_are_left_alone(tmp_path: Path, said: Any) -> None:
    written(tmp_path, kept(), said)
    strays = [tmp_path / name for name in ("notes.json", "mine.json", f"{PRINT}-copy.json", f"{PRINT.upper()}.json")]
    for stray in strays:
        stray.write_text("{")
    assert [plans.model for plans in all_plans(tmp_path, said)] == ["tiny"]
    assert not said
    assert all(stray.read_text() == "{" for stray in strays)


def test_a_file_of_a_newer_version_is_left_alone_and_told_once(tmp_path: Path, said: Any) -> None:
    path = written(tmp_path, kept(), said)
    newer = json.dumps({"format": 2, "what": "nobody knows yet"})
    path.write_text(newer)
    one = shelf(tmp_path, said)
    assert one.get("stories") is None
    one.put("stories", FOUND)
    assert path.read_text() == newer
    assert sorted(each.name for each in tmp_path.iterdir() if not each.name.endswith(".lock")) == [path.name]
    assert len(said) == 1
    assert "a newer version of Skipstone (format 2, this one reads 1)" in said[0]
    assert "upgrade" in said[0]


def test_what_a_newer_version_keeps_is_not_changed_by_commands_either(tmp_path: Path, said: Any) -> None:
    path = written(tmp_path, kept(), said)
    newer = json.dumps({**json.loads(path.read_text()), "format": 2})
    path.write_text(newer)
    with pytest.raises(StoreError, match="newer version"):
        change_plans(tmp_path, ModelPlans(PRINT, 6), lambda plans: plans.with_plans(kept().tasks), said)
    assert path.read_text() == newer
    assert all_plans(tmp_path, said) == []
    with pytest.raises(UsageError, match="newer version"):
        PlanFile.read(path).plans_for(ModelPlans(PRINT, 6, "mine"))


def test_a_disk_that_cannot_be_written_is_told_once_and_stops_nothing(tmp_path: Path, said: Any) -> None:
    (tmp_path / "plans").write_text("in the way")
    one = shelf(tmp_path / "plans", said)
    assert one.get("") is None
    for tokens in (300, 900):
        one.put("", replace(FOUND, tokens=tokens))
    assert any("not kept" in line for line in said)
    assert len(said) == len(set(said))
    with pytest.raises(StoreError):
        one.keep("", FOUND)


def test_a_model_that_cannot_be_told_from_others_has_no_plans(tmp_path: Path, said: Any) -> None:
    def identify() -> str:
        raise CheckpointError("its files are gone")

    one = shelf(tmp_path, said, identify=identify)
    assert one.get("") is None
    one.put("", FOUND)
    assert said == ["plans are not kept: its files are gone"]
    assert not list(tmp_path.iterdir())


def test_all_models_are_listed_and_a_damaged_one_is_told(tmp_path: Path, said: Any) -> None:
    written(tmp_path, kept(), said)
    written(tmp_path, replace(kept(), fingerprint=OTHER, model="another"), said)
    assert [plans.model for plans in all_plans(tmp_path, said)] == ["another", "tiny"]
    (tmp_path / f"{OTHER}.json").write_text("{")
    assert [plans.model for plans in all_plans(tmp_path, said)] == ["tiny"]
    assert len(said) == 1
    assert all_plans(tmp_path / "nowhere", said) == []


def test_the_last_plan_forgotten_takes_its_file_away(tmp_path: Path, said: Any) -> None:
    path = written(tmp_path, kept(), said)
    change_plans(tmp_path, ModelPlans(PRINT, 6), lambda plans: plans.without("stories"), said)
    assert not path.exists()


def test_an_unknown_task_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match='did you mean "stories"'):
        kept().task("storys")
    with pytest.raises(UsageError, match="skipstone tune"):
        ModelPlans(PRINT, 6, "tiny").task("stories")


def _exported(tmp_path: Path, edit: Callable[[str], str] = lambda text: text) -> Path:
    path = tmp_path / "plans.json"
    path.write_text(edit(json.dumps(kept().to_json())))
    return path


def test_a_file_of_the_same_model_is_taken_in(tmp_path: Path) -> None:
    plans = PlanFile.read(_exported(tmp_path)).plans_for(ModelPlans(PRINT, 6, "mine"))
    assert plans.task("stories").plan == PLAN


def test_plans_of_another_model_are_refused_by_fingerprint(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"plans of tiny \(0a0a0a0a0a0a\), not of mine \(1b1b1b1b1b1b\)"):
        PlanFile.read(_exported(tmp_path)).plans_for(ModelPlans(OTHER, 6, "mine"))


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (_entry(attn=[9]), r"leaves out layer 9, but the model has layers 0\.\.5"),
        (_edited(layers=12), "12 layers, but it has 6"),
        (_edited(tasks={}), "holds no plan"),
        (lambda text: "{", "not JSON"),
    ],
)
def test_files_that_cannot_be_plans_of_the_model_are_refused(tmp_path: Path, edit: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        PlanFile.read(_exported(tmp_path, edit)).plans_for(ModelPlans(PRINT, 6, "mine"))


def test_a_plan_that_names_absent_layers_is_a_plan_error(tmp_path: Path) -> None:
    with pytest.raises(PlanError):
        PlanFile.read(_exported(tmp_path, _entry(mlp=[6]))).plans_for(ModelPlans(PRINT, 6, "mine"))


def test_a_file_that_is_not_there_is_a_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        PlanFile.read(tmp_path / "none.json").plans_for(ModelPlans(PRINT, 6, "mine"))
