"""Files and folders that are either complete or absent, whatever stops the process in between."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident

from filelock import FileLock, Timeout

from ..errors import StoreError


@contextmanager
def disk_errors(where: Path, needed: int = 0, option: str = "--cache") -> Iterator[None]:
    """Turn trouble with the disk into a StoreError that says where, how much room was needed, and what chooses it.

    Libraries with their own writers wrap the system's error in a type of theirs, so the message counts too.
    """
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        if disk_is_full(error):
            raise disk_full(where, needed, option) from error
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise StoreError(f"{where}: {reason}; if it cannot be used, choose another with {option}") from error
        raise


def disk_is_full(error: BaseException | str) -> bool:
    return getattr(error, "errno", None) == errno.ENOSPC or os.strerror(errno.ENOSPC) in str(error)


def disk_full(where: Path, needed: int = 0, option: str = "--cache") -> StoreError:
    amount = f"; about {needed / 1e6:.0f} MB are needed" if needed else ""
    return StoreError(f"{where}: no space left on the disk{amount}; free some or choose another folder with {option}")


@contextmanager
def locked(target: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of `target` against other processes; the system drops it if this one dies."""
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(sibling(target, "lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress(f"another process or thread works on {target.name}; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def building(target: Path) -> Iterator[Path]:
    """A new folder to fill that becomes `target` when the block ends, and vanishes if it raises.

    The caller holds the lock of `target`; what a killed run left is removed first.
    """
    folder = sibling(target, "building")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
        sync(folder)
        os.replace(folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sync_folder(target.parent)


def set_aside(target: Path) -> Path:
    """Move a folder out of the way, in place of one set aside earlier; its new path."""
    aside = sibling(target, "damaged")
    shutil.rmtree(aside, ignore_errors=True)
    os.replace(target, aside)
    return aside


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """A path to write that becomes `target` when the block ends, and vanishes if it raises.

    Raises StoreError where `target` is a device or a pipe: it would be put in its place.
    """
    if target.exists() and not target.is_file():
        raise StoreError(f"{target} is no ordinary file: choose another")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = sibling(target, f"{os.getpid()}-{get_ident()}.part")
    try:
        yield part
        sync_path(part)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def write_json(target: Path, value: object, option: str = "--cache") -> None:
    """Write JSON so that a reader sees the old file or the new one, never a part; a link stays one.

    Raises StoreError when the disk is full or the folder cannot be written; ``option`` is what chooses it.
    """
    with disk_errors(target, option=option), new_file(Path(os.path.realpath(target))) as part:
        part.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def sibling(target: Path, suffix: str) -> Path:
    return target.with_name(f".{target.name}.{suffix}")


def sync(folder: Path) -> None:
    """Everything below `folder` reaches the disk before it gets its name."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            sync_path(path)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    if os.name == "posix":  # other systems cannot open a folder
        sync_path(folder)


def sync_path(path: Path) -> None:
    flags = os.O_RDONLY if os.name == "posix" else os.O_RDWR
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
