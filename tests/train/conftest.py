"""A tiny model to train, and a recipe of a few steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_folder import tiny_folder

from skipstone.train.recipe import Recipe

TEXT = "the cat and the hat in the bin and a man "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def recipe(folder: Path, tmp_path: Path) -> Callable[..., Recipe]:
    (tmp_path / "text.txt").write_text(TEXT * 40)
    small = {"steps": 4, "length": 32, "batch": 2, "accumulation": 2, "learning_rate": 0.01, "log_every": 1}
    names = {"model": str(folder), "data": [str(tmp_path / "text.txt")], "output": str(tmp_path / "out")}
    return lambda **given: Recipe.of({**names, **small, "save_every": 2, "device": "cpu", **given})
