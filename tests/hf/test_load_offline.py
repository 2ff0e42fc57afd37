"""Offline, nothing asks the network: for hub ids, bases of adapters, what was pulled, what was converted."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from folders import change, in_hub_cache, no_network
from lora import adapted, needs_peft
from tiny_folder import tiny_folder
from tiny_gguf import write_gguf

import skipstone
from skipstone.errors import ModelNotFound
from skipstone.store import cache_folders
from skipstone.store.manifest import write_manifest
from skipstone.text.locate import Finder

REPO = "org/tiny"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(autouse=True)
def cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_network(monkeypatch)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


def load(model: str | Path, tmp_path: Path) -> list[str]:
    """What was said while loading a model that then generates."""
    said: list[str] = []
    loaded = skipstone.load(model, offline=True, cache=tmp_path / "cache", progress=said.append)
    assert len(loaded.generate("the", max_new_tokens=3, eos_token_id=[]).tokens) == 3
    return said


def test_a_folder_loads(folder: Path, tmp_path: Path) -> None:
    assert load(folder, tmp_path) == []


def test_a_folder_needs_no_network_online_either(folder: Path) -> None:
    assert skipstone.load(folder).network.num_layers == 4


def test_a_hub_id_in_the_hub_cache_loads(folder: Path, tmp_path: Path) -> None:
    in_hub_cache(tmp_path / "hub", REPO, folder)
    assert load(REPO, tmp_path) == [f"looking up {REPO} in the hub cache"]


def test_a_hub_id_that_is_not_in_the_cache_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="offline, and org/tiny is not in the hub cache: load it once online"):
        load(REPO, tmp_path)


def test_a_hub_id_of_which_only_parts_are_in_the_cache_is_told_what_is_missing(folder: Path, tmp_path: Path) -> None:
    snapshot = in_hub_cache(tmp_path / "hub", REPO, folder)
    (snapshot / "config.json").unlink()
    with pytest.raises(ModelNotFound, match=r"has no config\.json"):
        load(REPO, tmp_path)


def test_an_alias_that_was_pulled_loads(folder: Path, tmp_path: Path) -> None:
    installed = cache_folders(tmp_path / "cache").model("smollm2-135m")
    shutil.copytree(folder, installed)
    write_manifest(installed, "a test")
    assert load("smollm2-135m", tmp_path) == []


def test_an_alias_that_was_not_pulled_is_told_how(tmp_path: Path) -> None:
    with pytest.raises(
        ModelNotFound, match=r'"smollm2-135m" is not installed yet, .*: run skipstone pull smollm2-135m'
    ):
        load("smollm2-135m", tmp_path)


def test_the_advice_to_pull_names_the_cache_that_was_given(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=f"run skipstone pull smollm2-135m --cache {re.escape(str(tmp_path))}$"):
        Finder(print, tmp_path, offline=True).folder("smollm2-135m")


def test_a_gguf_file_is_converted(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    converting = "converting tiny.gguf to a model folder, once"
    assert load(tmp_path / "tiny.gguf", tmp_path)[0] == converting
    assert converting not in load(tmp_path / "tiny.gguf", tmp_path)
    next(tmp_path.rglob("tiny-*/config.json")).unlink()
    assert load(tmp_path / "tiny.gguf", tmp_path)[0] == converting  # what is damaged is made again
    assert not list(tmp_path.rglob("*damaged*"))


@needs_peft
def test_an_adapter_whose_base_is_a_hub_id_in_the_cache_loads(folder: Path, tmp_path: Path) -> None:
    in_hub_cache(tmp_path / "hub", REPO, folder)
    adapter(folder, tmp_path / "mine")
    assert load(tmp_path / "mine", tmp_path) == [
        f"the adapter mine (LORA, rank 2) was made for {REPO}",
        f"looking up {REPO} in the hub cache",
        "adapter mine (LORA, rank 2) merged into the weights",
    ]


@needs_peft
def test_an_adapter_in_the_hub_cache_loads(folder: Path, tmp_path: Path) -> None:
    in_hub_cache(tmp_path / "hub", REPO, folder)
    in_hub_cache(tmp_path / "hub", "org/adapter", adapter(folder, tmp_path / "mine"))
    assert load("org/adapter", tmp_path)[-1].endswith("merged into the weights")


@needs_peft
def test_an_adapter_whose_base_is_not_here_is_told_both(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"org/tiny is not in the hub cache.*\(the adapter .*mine was made for it"):
        load(adapter(folder, tmp_path / "mine"), tmp_path)


def adapter(folder: Path, out: Path) -> Path:
    """An adapter made for REPO."""
    adapted(folder, rank=2, targets=["q_proj"]).save_pretrained(out)
    return change(out / "adapter_config.json", base_model_name_or_path=REPO)
