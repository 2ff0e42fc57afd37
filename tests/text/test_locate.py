"""A model by any name: alias, folder, GGUF file, hub id; and what is none of these."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skipstone.errors import CheckpointError, ModelNotFound, StoreError
from skipstone.store import cache_folders
from skipstone.store.manifest import write_manifest
from skipstone.text import locate as module
from skipstone.text.locate import locate


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files converted, by a converter that writes a config only."""
    seen: list[Path] = []

    def convert(gguf: Path, folder: Path) -> None:
        seen.append(gguf)
        (folder / "config.json").write_text(json.dumps({"from": gguf.name}))

    monkeypatch.setattr(module, "gguf_to_folder", convert)
    return seen


def test_a_folder_is_itself(tmp_path: Path, said: list[str]) -> None:
    assert locate(tmp_path, progress=said.append) == tmp_path
    assert said == []


def test_an_alias_is_the_folder_it_was_installed_in(tmp_path: Path, said: list[str]) -> None:
    installed = cache_folders(tmp_path).model("smollm2-135m")
    installed.mkdir(parents=True)
    (installed / "config.json").write_text("{}")
    write_manifest(installed, "a test")
    assert locate("smollm2-135m", cache=tmp_path, progress=said.append) == installed
    assert said == []


def test_an_alias_that_is_not_there_is_pulled(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "pull", lambda name, convert, root, progress: root / name)
    assert locate("smollm2-135m", cache=tmp_path, progress=said.append) == tmp_path / "smollm2-135m"


def test_a_gguf_file_is_converted_once_for_each_content(
    tmp_path: Path, said: list[str], conversions: list[Path]
) -> None:
    gguf = tmp_path / "my model.gguf"
    gguf.write_bytes(b"weights")
    folder = locate(gguf, cache=tmp_path / "cache", progress=said.append)
    assert json.loads((folder / "config.json").read_text()) == {"from": "my model.gguf"}
    assert said == ["converting my model.gguf to a model folder, once"]
    moved = gguf.rename(tmp_path / "other.gguf").rename(gguf)
    assert locate(str(moved), cache=tmp_path / "cache", progress=said.append) == folder
    assert len(conversions) == 1
    gguf.write_bytes(b"other weights")
    assert locate(gguf, cache=tmp_path / "cache", progress=said.append) != folder
    assert len(conversions) == 2


def test_a_gguf_file_that_cannot_be_converted_leaves_nothing_behind(tmp_path: Path, said: list[str]) -> None:
    gguf = tmp_path / "bad.gguf"
    gguf.write_bytes(b"GGUF?")
    with pytest.raises(CheckpointError, match=r"bad\.gguf: not a readable GGUF model"):
        locate(gguf, cache=tmp_path / "cache", progress=said.append)
    assert [path for path in (tmp_path / "cache" / "models").iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("smolm2-135m", 'not a folder or file here, nor an alias or hub id .*did you mean "smollm2-135m"'),
        ("./nope", 'no model "./nope": not a folder or file here'),
        ("/no/such/folder", "not a folder or file here"),
        ("", 'no model ""'),
        ("a\0b", "not a folder or file here"),
        ("x" * 5000, "not a folder or file here"),
        ("~nobody-of-this-name/model", "not a folder or file here"),
    ],
)
def test_what_is_no_model_is_told_what_could_be_one(name: str, says: str, said: list[str]) -> None:
    with pytest.raises(ModelNotFound, match=says):
        locate(name, progress=said.append)


def test_a_hub_id_that_cannot_be_fetched_is_told_with_the_reason(
    said: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelNotFound, match=r'no folder "org/name" here, and as a hub id it cannot be fetched: cannot'):
        locate("org/name", progress=said.append)
    assert said == ["looking up org/name on the hub"]


def test_a_hub_id_is_the_folder_of_its_snapshot(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "hub_snapshot", lambda name, progress, offline=False: tmp_path / name)
    assert locate("org/name", progress=said.append) == tmp_path / "org/name"


def test_other_files_are_refused_with_what_to_give_instead(tmp_path: Path, said: list[str]) -> None:
    for name, says in (("m.safetensors", "give the folder it lies in"), ("m.bin", r"is not a \.gguf file")):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(CheckpointError, match=says):
            locate(tmp_path / name, progress=said.append)


def test_a_full_disk_is_told_with_the_folder(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(gguf: Path, folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "gguf_to_folder", full)
    (tmp_path / "m.gguf").write_bytes(b"weights")
    with pytest.raises(StoreError, match=r"no space left on the disk.*--cache"):
        locate(tmp_path / "m.gguf", cache=tmp_path / "cache", progress=said.append)
