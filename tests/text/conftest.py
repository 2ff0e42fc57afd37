"""One tiny model for all tests of the text layer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_folder import tiny_folder

import skipstone
from skipstone.text.language_model import LanguageModel


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def model(folder: Path) -> LanguageModel:
    return skipstone.load(folder, dtype="float64")
