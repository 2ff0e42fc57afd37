"""Data sets of the Hugging Face hub, by name: read with the library ``datasets``, which keeps them in its cache."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..hf.quiet import quiet
from ..hf.reason import told_as

PREFIX = "hf:"
_FILES = (".jsonl", ".ndjson", ".json", ".gz", ".txt", ".md", ".csv", ".parquet")  # nobody means a data set by these
_NAME = re.compile(r"(?P<path>\w[\w.-]*/\w[\w.-]*)(:(?P<config>[\w.+-]+))?(/(?P<split>\w.*))?")
_LEGACY = re.compile(r"(?P<path>\w[\w.-]*)(:(?P<config>[\w.+-]+))?(/(?P<split>\w.*))?")  # without an owner


@dataclass(frozen=True)
class HubData:
    """``owner/name[:config][/split]``; the split, ``train`` unless given, may be a part such as ``train[:1000]``."""

    path: str
    config: str | None = None
    split: str = "train"

    @classmethod
    def named(cls, given: str) -> HubData | None:
        """None for what is a file, or looks like one. ``hf:`` before a name says that it is a data set, come what may.

        Raises UsageError where there is a name no data set could have behind ``hf:``.
        """
        name = given.removeprefix(PREFIX)
        sure = name != given
        if not sure and (given.lower().endswith(_FILES) or Path(given).expanduser().exists()):
            return None
        found = _NAME.fullmatch(name) or (_LEGACY.fullmatch(name) if sure else None)
        if found is None and sure:
            raise UsageError(f'"{given}" names no data set: write hf:owner/name, hf:owner/name:config/split')
        return None if found is None else cls(found["path"], found["config"], found["split"] or "train")

    def __str__(self) -> str:
        config = f":{self.config}" if self.config else ""
        return f"{self.path}{config}/{self.split}"

    def rows(self, *, offline: bool = False) -> Iterator[Mapping[str, Any]]:
        """Its rows in order, by column.

        Raises UsageError where ``datasets`` is not installed, the hub or ``datasets`` does not know such a data set,
        configuration or split, or it is not in the cache and ``offline``.
        """
        if find_spec("datasets") is None:
            raise UsageError(
                f"{self} is no file here; a data set of the hub takes the library datasets: pip install "
                "'skipstone[train]'"
            )
        return iter(self._loaded(offline))

    def _loaded(self, offline: bool) -> Any:
        import datasets

        what = f"{self} is no file here, and as a data set it cannot be loaded{' offline' if offline else ''}"
        with told_as(UsageError, what), quiet(), _offline(datasets) if offline else nullcontext():
            return datasets.load_dataset(self.path, self.config, split=self.split)


@contextmanager
def _offline(datasets: Any) -> Iterator[None]:
    """Both libraries read their environment once, at import, into these."""
    from huggingface_hub import constants

    places: list[Any] = [datasets.config, constants]
    before = [place.HF_HUB_OFFLINE for place in places]
    try:
        for place in places:
            place.HF_HUB_OFFLINE = True
        yield
    finally:
        for place, value in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = value
