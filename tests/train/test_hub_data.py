"""Data sets of the hub by name, with a stand-in for the library that fetches them."""

from __future__ import annotations

import importlib.machinery
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from skipstone.errors import UsageError
from skipstone.train.hub_data import HubData
from skipstone.train.texts import Answered, Chat, Text, read_samples

ROWS: dict[tuple[str, str | None], dict[str, list[dict[str, Any]]]] = {
    ("someone/tales", None): {
        "train": [{"text": "the cat", "id": 1}, {"text": "a man", "id": 2}],
        "test": [{"text": "held"}],
    },
    ("someone/chats", "short"): {"train": [{"messages": [{"role": "assistant", "content": "yes"}]}]},
    ("someone/tasks", None): {"train": [{"prompt": "1+1", "response": "2"}]},
    ("openai/gsm8k", "main"): {"train": [{"question": "1+1", "answer": "2"}]},
    ("tales", None): {"train": [{"text": "of old"}]},
}


class _Library(ModuleType):
    """As ``datasets`` answers, out of ROWS; ``offline`` is what its settings said at each call."""

    def __init__(self) -> None:
        super().__init__("datasets")
        self.__spec__ = importlib.machinery.ModuleSpec("datasets", None)
        self.config = ModuleType("datasets.config")
        self.config.HF_HUB_OFFLINE = False
        self.offline: list[bool] = []

    def load_dataset(self, path: str, name: str | None, *, split: str) -> list[dict[str, Any]]:
        from huggingface_hub import constants

        self.offline.append(self.config.HF_HUB_OFFLINE and constants.HF_HUB_OFFLINE)
        if self.offline[-1] and path == "someone/tasks":
            raise ConnectionError(f"Couldn't reach the Hugging Face Hub for dataset '{path}': Offline mode is enabled.")
        found = ROWS.get((path, name))
        if found is None:
            raise FileNotFoundError(f"Dataset '{path}' doesn't exist on the Hub or cannot be accessed.")
        if split not in found:
            raise ValueError(f'Unknown split "{split}". Should be one of {list(found)}.')
        return found[split]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> _Library:
    library = _Library()
    monkeypatch.setitem(sys.modules, "datasets", library)
    return library


@pytest.mark.parametrize(
    ("given", "data"),
    [
        ("roneneldan/TinyStories", HubData("roneneldan/TinyStories")),
        ("openai/gsm8k:main", HubData("openai/gsm8k", "main")),
        ("openai/gsm8k:main/test", HubData("openai/gsm8k", "main", "test")),
        ("someone/tales/train[:1000]", HubData("someone/tales", None, "train[:1000]")),
        ("hf:someone/tales.txt", HubData("someone/tales.txt")),
        ("hf:imdb/test", HubData("imdb/test")),
        ("hf:imdb", HubData("imdb")),
        ("data/chats.jsonl", None),
        ("data/chats.jsonl.gz", None),
        ("./someone/tales", None),
        ("/someone/tales", None),
        ("~/someone/tales", None),
        ("notes", None),
    ],
)
def test_names_of_data_sets_are_told_from_those_of_files(given: str, data: HubData | None) -> None:
    assert HubData.named(given) == data


def test_a_file_that_is_there_goes_before_a_data_set_of_its_name(
    library: _Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("someone").mkdir()
    Path("someone/tales").write_text("of a file")
    assert read_samples(["someone/tales"]) == [Text("of a file")]
    assert read_samples(["hf:someone/tales"]) == [Text("the cat"), Text("a man")]


def test_columns_mean_what_fields_of_jsonl_mean(library: _Library) -> None:
    names = ["someone/tales", "someone/tales/test", "someone/chats:short", "someone/tasks", "hf:tales"]
    assert read_samples(names) == [
        *(Text("the cat"), Text("a man"), Text("held")),
        Chat(({"role": "assistant", "content": "yes"},)),
        *(Answered("1+1", "2"), Text("of old")),
    ]


def test_offline_is_meant_for_this_call_alone(library: _Library) -> None:
    assert read_samples(["someone/tales"], offline=True) == read_samples(["someone/tales"])
    assert library.offline == [True, False]
    with pytest.raises(
        UsageError,
        match=r"someone/tasks/train is no file here, and as a data set it cannot be loaded offline: .*Offline",
    ):
        read_samples(["someone/tasks"], offline=True)
    assert not library.config.HF_HUB_OFFLINE


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "no/such",
            r"no/such/train is no file here, and as a data set it cannot be loaded: .*doesn't exist on the Hub",
        ),
        ("someone/tales/dev", r'Unknown split "dev". Should be one of \[\'train\', \'test\'\]'),
        ("openai/gsm8k:main", r"openai/gsm8k:main/train, row 1: no text among its fields \(question, answer\)"),
        ("hf:../tales", r'"hf:../tales" names no data set: write hf:owner/name'),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(library: _Library, given: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        read_samples([given])
    assert "\n" not in str(caught.value)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skipstone.train.hub_data.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"someone/tales/train is no file here; .*pip install 'skipstone\[train\]'"):
        read_samples(["someone/tales"])
