"""A model is the same wherever it lies and however it is cut into files, and another one where any weight matrix is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from tiny_folder import save_model

from skipstone.errors import CheckpointError
from skipstone.hf.checkpoint import read_checkpoint
from skipstone.hf.fingerprint import fingerprint


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    save_model(tmp_path / "model")
    return tmp_path / "model"


def printed(folder: Path) -> str:
    return fingerprint(read_checkpoint(folder))


def test_a_copy_under_another_name_is_the_same_model(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "model.safetensors").touch()
    assert printed(copy) == printed(folder)


def test_shards_are_the_same_model(folder: Path) -> None:
    whole = printed(folder)
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in halves.items():
        save_file({name: tensors[name] for name in part}, folder / file, {"format": "pt"})
    weight_map = {name: file for file, part in halves.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / "model.safetensors").unlink()
    assert printed(folder) == whole


def test_any_trained_tensor_makes_another_model(folder: Path) -> None:
    before = printed(folder)
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        save_file({**tensors, name: tensor + 0.5}, folder / "model.safetensors", {"format": "pt"})
        assert printed(folder) != before, name


def test_fewer_layers_make_another_model(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "shallow").mkdir()
    save_model(tmp_path / "shallow", layers=3)
    assert printed(tmp_path / "shallow") != printed(folder)


def test_files_that_are_gone_are_an_error_of_the_checkpoint(folder: Path) -> None:
    checkpoint = read_checkpoint(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError):
        fingerprint(checkpoint)
