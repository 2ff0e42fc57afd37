"""A model by any name (alias, folder, GGUF file, hub id, adapter) to a folder on disk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import CheckpointError, ModelNotFound, StoreError, did_you_mean
from ..hf.adapters import BASE, Adapter, is_adapter, need_peft, read_adapter
from ..hf.convert import gguf_to_folder
from ..store import converted, find_installed, hub_snapshot, known_aliases, pull
from .progress import Progress

DEFAULT_MODEL = "smollm2-135m"


@dataclass(frozen=True)
class ModelSource:
    """A folder with a whole model, and the adapters to merge into it, in this order."""

    folder: Path
    adapters: tuple[Adapter, ...] = ()


@dataclass(frozen=True)
class Finder:
    """Where to look: ``cache`` holds what was pulled and converted; ``offline`` forbids every network call."""

    progress: Progress
    cache: Path | None = None
    offline: bool = False
    seen: Sequence[Path] = field(default=(), repr=False)

    def source(self, model: str | Path) -> ModelSource:
        """A model with its adapters, whose bases are looked for in turn.

        Raises ModelNotFound, CheckpointError, UnsupportedModel (an adapter without peft), StoreError.
        """
        folder = self.folder(model)
        if not is_adapter(folder):
            return ModelSource(folder)
        adapter = read_adapter(folder)
        need_peft(adapter)
        if (folder / "config.json").is_file():  # a whole model that brings an adapter
            return ModelSource(folder, (adapter,))
        below = self._base(adapter)
        return ModelSource(below.folder, (*below.adapters, adapter))

    def _base(self, adapter: Adapter) -> ModelSource:
        if not adapter.base:
            raise CheckpointError(f"the adapter {adapter.folder} does not say which model it was made for")
        if adapter.folder in self.seen:
            raise CheckpointError(f"the adapter {adapter.folder} is made for itself: fetch it again")
        self.progress(f"the adapter {adapter} was made for {adapter.base}")
        finder = Finder(self.progress, self.cache, self.offline, [*self.seen, adapter.folder])
        try:
            return finder.source(_beside(adapter))
        except ModelNotFound as error:
            raise ModelNotFound(
                f"{error} (the adapter {adapter.folder} was made for it: base_model_name_or_path in its "
                f"adapter_config.json may name another folder, where there is no {BASE})"
            ) from error

    def folder(self, model: str | Path) -> Path:
        """The folder of ``model`` alone, fetched or converted first if need be."""
        name = str(model)
        path = _existing(name)
        if path is not None:
            return path if path.is_dir() else self._from_file(path)
        aliases = [alias.name for alias in known_aliases()]
        if name in aliases:
            return self._installed(name)
        if not re.fullmatch(r"\w[\w.-]*/[\w.-]+", name):
            hint = did_you_mean(name, aliases)
            raise ModelNotFound(
                f'no model "{shortened(name)}": not a folder or file here, nor an alias or hub id (org/name); {hint}'
            )
        try:
            return hub_snapshot(name, self.progress, offline=self.offline)
        except StoreError as error:
            raise ModelNotFound(
                f'no folder "{shortened(name)}" here, and as a hub id it cannot be fetched: {error}'
            ) from error

    def _installed(self, name: str) -> Path:
        found = find_installed(name, self.cache)
        if found is None and self.offline:
            command = f"skipstone pull {name}" + (f" --cache {self.cache}" if self.cache else "")
            raise ModelNotFound(f'"{name}" is not installed yet, and offline it cannot be: run {command}')
        return found or pull(name, convert=gguf_to_folder, root=self.cache, progress=self.progress)

    def _from_file(self, file: Path) -> Path:
        if file.suffix == ".gguf":
            return converted(file, convert=gguf_to_folder, root=self.cache, progress=self.progress)
        if file.suffix == ".safetensors":
            raise CheckpointError(f"{file} is one weight file: give the folder it lies in, with its config.json")
        raise CheckpointError(f"{file} is not a .gguf file: give a GGUF file or a folder with safetensors weights")


def locate(model: str | Path, *, cache: Path | None = None, progress: Progress, offline: bool = False) -> Path:
    """The folder of ``model``, fetched or converted first if need be.

    Raises ModelNotFound, CheckpointError (a file of another kind), StoreError (disk or download).
    """
    return Finder(progress, cache, offline).folder(model)


def _existing(name: str) -> Path | None:
    """The file or folder of that name; None where there is none, or it cannot be a name."""
    try:
        path = Path(name).expanduser()
        return path if name and path.exists() else None
    except (OSError, ValueError, RuntimeError):  # too long, a null character, a home of nobody's
        return None


def _beside(adapter: Adapter) -> str:
    """An adapter's base, which may be named relative to the adapter's own folder."""
    try:
        near = adapter.folder / adapter.base
        return str(near) if not Path(adapter.base).is_absolute() and near.exists() else adapter.base
    except (OSError, ValueError):
        return adapter.base


def shortened(name: str) -> str:
    """A name, cut in the middle where nobody could read it to its end."""
    return name if len(name) <= _READABLE else f"{name[: _READABLE // 2]}…{name[-_READABLE // 2 :]}"


_READABLE = 300
