"""GGUF files of the user's own, converted once: a folder in the cache for each content."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from .atomic import building, disk_errors, locked, set_aside, sibling
from .folders import cache_folders
from .manifest import sha256, verify, write_manifest

Convert = Callable[[Path, Path], None]


def converted(gguf: Path, *, convert: Convert, root: Path | None = None, progress: Callable[[str], None]) -> Path:
    """The model folder made of ``gguf``, from the cache where its content was converted before.

    Raises StoreError for disk trouble, and what ``convert`` raises.
    """
    digest = sha256(gguf)
    target = cache_folders(root).model(f"{gguf.stem}-{digest[:16]}")
    if not verify(target):
        return target
    with disk_errors(target), locked(target, progress):
        if verify(target):
            progress(f"converting {gguf.name} to a model folder, once")
            if target.exists():  # damaged since, or of an older form
                set_aside(target)
            with building(target) as folder:
                convert(gguf, folder)
                write_manifest(folder, f"{gguf.name} sha256:{digest}")
            shutil.rmtree(sibling(target, "damaged"), ignore_errors=True)
    return target
