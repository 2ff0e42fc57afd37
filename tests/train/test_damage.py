"""A run folder that something has damaged: told by name, with the way to go on."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

from skipstone.errors import CheckpointError, StoreError, UsageError
from skipstone.train.recipe import Recipe
from skipstone.train.run import train, training
from skipstone.train.run_folder import RunFolder
from skipstone.train.watch import Watch


class _Stop(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 3:
            raise KeyboardInterrupt


@pytest.fixture
def stopped(recipe: Callable[..., Recipe], folder: Path, tmp_path: Path) -> Path:
    """A run of which checkpoint-1 and checkpoint-2 are left."""
    with pytest.raises(KeyboardInterrupt):
        train(recipe(save_every=1), folder, watch=Watch(callbacks=[_Stop()]))
    return tmp_path / "out.run"


def _cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def test_a_damaged_checkpoint_is_named_with_the_one_before_it(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path, stopped: Path
) -> None:
    last, aside = stopped / "checkpoint-2", tmp_path / "aside"
    said = f"{re.escape(str(last))} is damaged .*: remove that folder to go on from checkpoint-1"
    shutil.copytree(last, aside)
    for name in [each.name for each in aside.iterdir() if each.suffix in (".pt", ".pth", ".json", ".safetensors")]:
        for spoil in (_cut_off, Path.unlink):
            spoil(last / name)
            with pytest.raises(CheckpointError, match=said):
                train(recipe(), folder, resume=True)
            shutil.copyfile(aside / name, last / name)
    shutil.rmtree(stopped / "checkpoint-1")
    _cut_off(last / "optimizer.pt")
    with pytest.raises(CheckpointError, match="remove that folder to begin at step 0"):
        train(recipe(), folder, resume=True)
    shutil.rmtree(last)
    assert train(recipe(), folder, resume=True).report()["log"][0]["step"] == 1


@pytest.mark.parametrize("name", ["optimizer.pt", "trainer_state.json", "model.safetensors", "scheduler.pt"])
def test_damage_that_no_size_shows_is_told_too(
    recipe: Callable[..., Recipe], folder: Path, stopped: Path, name: str
) -> None:
    file = stopped / "checkpoint-2" / name
    file.write_bytes(b"\xff" * file.stat().st_size)
    with pytest.raises(CheckpointError, match=r"checkpoint-2 is damaged .*go on from checkpoint-1"):
        train(recipe(), folder, resume=True)


def test_checkpoints_of_another_program_are_left_alone(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    theirs = tmp_path / "out.run" / "checkpoint-500"
    theirs.mkdir(parents=True)
    for resume in (False, True):
        with pytest.raises(UsageError, match="checkpoint-500 is not of this program: choose another output"):
            train(recipe(), folder, resume=resume)
    assert theirs.exists()


def test_what_others_keep_in_the_folder_stays(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path, stopped: Path
) -> None:
    theirs = [stopped / "notes.txt", stopped / "sub" / "x"]
    theirs[1].parent.mkdir()
    for each in theirs:
        each.write_text("precious")
    with training(recipe(), folder, resume=True):
        pass
    RunFolder(stopped).remove()
    assert [each.read_text() for each in theirs] == ["precious", "precious"]
    assert sorted(each.name for each in stopped.iterdir()) == ["notes.txt", "sub"]


@pytest.mark.parametrize(
    ("name", "theirs"), [("recipe.json", '{"soup": 1}'), ("recipe.json", "soup"), ("log.jsonl", "soup")]
)
def test_files_of_another_program_are_left_alone(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path, name: str, theirs: str
) -> None:
    (tmp_path / "out.run").mkdir()
    (tmp_path / "out.run" / name).write_text(theirs)
    with pytest.raises(UsageError, match=rf"{name} is not of this program: choose another output"):
        train(recipe(), folder)
    assert (tmp_path / "out.run" / name).read_text() == theirs


def test_a_file_where_checkpoints_are_to_lie_is_named(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "out.run").write_text("mine")
    with pytest.raises(UsageError, match=r"out\.run is no folder.*choose another output"):
        train(recipe(), folder)


def test_a_run_goes_on_with_the_settings_of_the_model_it_began_with(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path, stopped: Path
) -> None:
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    settings = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**settings, "rms_norm_eps": 0.1}))
    with pytest.raises(UsageError, match="model settings: not what the run"):
        train(recipe(), other, resume=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda told: {**told, "exits": told["exits"][:1]},
        lambda told: {**told, "exits": []},
        lambda told: {**told, "choices": told["choices"][1:]},
        lambda told: {**told, "seconds": "x"},
    ],
)
def test_figures_of_the_start_that_cannot_be_are_named(
    recipe: Callable[..., Recipe], folder: Path, stopped: Path, change: Callable[[Any], Any]
) -> None:
    (stopped / "before.json").write_text(json.dumps(change(json.loads((stopped / "before.json").read_text()))))
    with pytest.raises(CheckpointError, match=r"before\.json is damaged .*: remove .*out.run to begin anew"):
        train(recipe(), folder, resume=True)


def test_a_log_that_is_no_text_is_cut_back_to_what_is(
    recipe: Callable[..., Recipe], folder: Path, stopped: Path
) -> None:
    log = stopped / "log.jsonl"
    log.write_bytes(log.read_bytes() + b"\xff\xfe\n")
    train(recipe(), folder, resume=True)
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()] == [1, 2, 3, 4]


def test_what_goes_wrong_after_a_checkpoint_was_read_is_no_damage(
    recipe: Callable[..., Recipe], folder: Path, stopped: Path
) -> None:
    class _Fails(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            raise RuntimeError("no route to the other machine")

    with pytest.raises(RuntimeError, match="no route"):
        train(recipe(), folder, resume=True, watch=Watch(callbacks=[_Fails()]))


@pytest.mark.parametrize("name", ["recipe.json", "before.json", "facts.json"])
def test_a_damaged_file_of_the_run_is_named(
    recipe: Callable[..., Recipe], folder: Path, stopped: Path, name: str
) -> None:
    (stopped / name).write_text('{"steps')
    for spoil in (lambda: None, (stopped / name).unlink):
        spoil()
        with pytest.raises(CheckpointError, match=rf"{name} is damaged .*: remove .*out.run to begin anew"):
            train(recipe(), folder, resume=True)


def test_a_run_of_before_a_setting_existed_goes_on(recipe: Callable[..., Recipe], folder: Path, stopped: Path) -> None:
    settings = json.loads((stopped / "recipe.json").read_text())
    del settings["frozen_layers"], settings["exits"]
    (stopped / "recipe.json").write_text(json.dumps(settings))
    assert train(recipe(), folder, resume=True).report()["log"][-1]["step"] == 4


def test_a_disk_that_is_full_at_the_first_checkpoint_promises_none_before(
    recipe: Callable[..., Recipe], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise RuntimeError("PytorchStreamWriter failed writing file")

    monkeypatch.setattr("torch.save", full)
    with pytest.raises(StoreError, match="begin anew: there is none before it"):
        train(recipe(), folder)
