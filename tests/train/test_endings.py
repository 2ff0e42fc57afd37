"""The end of a run and what comes after a stop near it: nothing is trained twice, and nothing is lost."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

from skipstone.errors import UsageError
from skipstone.train.recipe import Recipe
from skipstone.train.run import train, training
from skipstone.train.run_folder import RunFolder
from skipstone.train.watch import Watch


class _Stop(TrainerCallback):
    """As a kill would, after so many steps."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self._step:
            raise KeyboardInterrupt


def _steps(place: RunFolder) -> list[int]:
    return [json.loads(line)["step"] for line in place.log.read_text().splitlines()]


def test_a_run_that_ended_without_its_result_is_not_trained_further(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    settings = recipe(exits=[2])
    ended, place = train(settings, folder), RunFolder.beside(tmp_path / "out")
    resumed = train(settings, folder, resume=True)
    assert _steps(place) == [1, 2, 3, 4]
    assert [entry["step"] for entry in resumed.report()["log"]] == [1, 2, 3, 4]
    assert resumed.before == ended.before
    assert resumed.after == ended.after
    pairs = zip(ended.model.parameters(), resumed.model.parameters(), strict=True)
    assert all(torch.equal(a.detach(), b.detach()) for a, b in pairs)


def test_a_run_belongs_to_its_process_until_the_result_is_written(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    place = RunFolder.beside(tmp_path / "out")
    with training(recipe(steps=1), folder):
        with pytest.raises(UsageError, match="belongs to a run under way"), place.held():
            pass
        place.remove()
    with place.held():
        pass


def test_a_log_that_cannot_be_rewritten_is_kept(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(recipe(), folder, watch=Watch(callbacks=[_Stop(4)]))
    place = RunFolder.beside(tmp_path / "out")
    lines = place.log.read_text()

    def full(self: Path, text: str) -> None:
        with self.open("w"):  # as the system does: emptied first
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        train(recipe(), folder, resume=True)
    assert lines
    assert place.log.read_text() == lines


def test_a_removal_that_was_killed_leaves_nothing_that_a_new_run_would_take_for_its_own(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    train(recipe(), folder)
    place = RunFolder.beside(tmp_path / "out")
    (place.path / "recipe.json").unlink()
    for checkpoint in place.path.glob("checkpoint-*"):
        (checkpoint / "complete").unlink()
    kept = json.loads((place.path / "before.json").read_text())
    (place.path / "before.json").write_text(json.dumps({**kept, "tokens": 1}))
    again = train(recipe(steps=2), folder)
    assert again.before.tokens == kept["tokens"]
    assert _steps(place) == [1, 2]


def test_a_run_to_go_on_with_that_is_not_there_is_told(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    train(recipe(steps=1), folder, resume=True, watch=Watch(said.append))
    assert f"nothing to go on with in {tmp_path / 'out.run'}: begins at step 0" in said
