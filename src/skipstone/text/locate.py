"""A model by any name (alias, folder, GGUF file, hub id) to a folder on disk."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import CheckpointError, ModelNotFound, StoreError, did_you_mean
from ..hf.convert import gguf_to_folder
from ..store import converted, find_installed, hub_snapshot, known_aliases, pull
from .progress import Progress

DEFAULT_MODEL = "smollm2-135m"


def locate(model: str | Path, *, cache: Path | None = None, progress: Progress) -> Path:
    """The folder of ``model``, fetched or converted first if need be.

    Raises ModelNotFound, CheckpointError (a file of another kind), StoreError (disk or download).
    """
    name = str(model)
    path = _existing(name)
    if path is not None:
        return path if path.is_dir() else _from_file(path, cache, progress)
    aliases = [alias.name for alias in known_aliases()]
    if name in aliases:
        return find_installed(name, cache) or pull(name, convert=gguf_to_folder, root=cache, progress=progress)
    if not re.fullmatch(r"\w[\w.-]*/[\w.-]+", name):
        hint = did_you_mean(name, aliases)
        raise ModelNotFound(f'no model "{name}": not a folder or file here, nor an alias or hub id (org/name); {hint}')
    try:
        return hub_snapshot(name, progress)
    except StoreError as error:
        raise ModelNotFound(f'no folder "{name}" here, and as a hub id it cannot be fetched: {error}') from error


def _existing(name: str) -> Path | None:
    """The file or folder of that name; None where there is none, or it cannot be a name."""
    try:
        path = Path(name).expanduser()
        return path if name and path.exists() else None
    except (OSError, ValueError, RuntimeError):  # too long, a null character, a home of nobody's
        return None


def _from_file(file: Path, cache: Path | None, progress: Progress) -> Path:
    if file.suffix == ".gguf":
        return converted(file, convert=gguf_to_folder, root=cache, progress=progress)
    if file.suffix == ".safetensors":
        raise CheckpointError(f"{file} is one weight file: give the folder it lies in, with its config.json")
    raise CheckpointError(f"{file} is not a .gguf file: give a GGUF file or a folder with safetensors weights")
