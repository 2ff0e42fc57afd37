"""A model by any name (alias, folder, GGUF file, hub id) to a folder on disk."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from ..errors import CheckpointError, ModelNotFound, StoreError, did_you_mean
from ..hf.convert import gguf_to_folder
from ..store import converted, find_installed, hub_snapshot, known_aliases, pull

Progress = Callable[[str], None]

DEFAULT_MODEL = "smollm2-135m"


def to_stderr(line: str) -> None:
    """The default progress: one line a message, out of the way of the output."""
    print(line, file=sys.stderr, flush=True)


def locate(model: str | Path, *, cache: Path | None = None, progress: Progress) -> Path:
    """The folder of ``model``, fetched or converted first if need be.

    Raises ModelNotFound, CheckpointError (a file of another kind), StoreError (disk or download).
    """
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if path.is_file():
        return _from_file(path, cache, progress)
    name = str(model)
    aliases = [alias.name for alias in known_aliases()]
    if name in aliases:
        return find_installed(name, cache) or pull(name, convert=gguf_to_folder, root=cache, progress=progress)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        hint = did_you_mean(name, aliases)
        raise ModelNotFound(f'no model "{name}": not a folder or file here, nor an alias or hub id (org/name); {hint}')
    try:
        return hub_snapshot(name, progress)
    except StoreError as error:
        raise ModelNotFound(f'no folder "{name}" here, and as a hub id it cannot be fetched: {error}') from error


def _from_file(file: Path, cache: Path | None, progress: Progress) -> Path:
    if file.suffix == ".gguf":
        return converted(file, convert=gguf_to_folder, root=cache, progress=progress)
    if file.suffix == ".safetensors":
        raise CheckpointError(f"{file} is one weight file: give the folder it lies in, with its config.json")
    raise CheckpointError(f"{file} is not a .gguf file: give a GGUF file or a folder with safetensors weights")
