"""Sound model folders to spoil copies of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tiny_folder import tiny_folder
from transformers import AutoModelForCausalLM

from skipstone.hf.quiet import quiet


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_folder(tmp_path_factory.mktemp("models") / "tiny", layers=2)
    (folder / "evil.py").write_text("import os\nos.system('true')\n")  # which no file may bring to run
    return folder


@pytest.fixture(scope="session")
def sharded(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "sharded"
    shutil.copytree(sound, folder)
    (folder / "model.safetensors").unlink()
    with quiet():
        AutoModelForCausalLM.from_pretrained(sound).save_pretrained(folder, max_shard_size="40KB")
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "model"))
