"""What an installed folder must hold: sizes and hashes of its files, in its manifest.json."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from .atomic import write_json

NAME = "manifest.json"
FORMAT = 1
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """What one file must be."""

    size: int
    sha256: str


def write_manifest(folder: Path, source: str) -> None:
    """Record every file of a finished folder, and where it came from.

    Raises StoreError when the disk is full.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != NAME)
    files = {path.relative_to(folder).as_posix(): asdict(entry(path)) for path in paths}
    write_json(folder / NAME, {"format": FORMAT, "source": source, "files": files})


def verify(folder: Path, *, full: bool = False) -> tuple[str, ...]:
    """What is wrong with an installed folder, a line each; nothing when it is sound.

    Compares sizes, which is instant; `full` compares hashes too, which reads everything.
    """
    try:
        files = recorded_files(folder)
    except (OSError, ValueError, KeyError, TypeError):
        return (f"{NAME} is missing or unreadable",)
    found = (problem(folder / name, expected, full) for name, expected in files.items())
    return tuple(line for line in found if line)


def recorded_files(folder: Path) -> dict[str, Entry]:
    manifest = json.loads((folder / NAME).read_text(encoding="utf-8"))
    if manifest["format"] != FORMAT:
        raise ValueError(f"{NAME} has format {manifest['format']}, not {FORMAT}")
    return {name: Entry(int(kept["size"]), str(kept["sha256"])) for name, kept in manifest["files"].items()}


def problem(path: Path, expected: Entry, full: bool) -> str | None:
    if not path.is_file():
        return f"{path.name} is missing"
    size = path.stat().st_size
    if size != expected.size:
        return f"{path.name} has {size} bytes, not {expected.size}"
    if full and sha256(path) != expected.sha256:
        return f"{path.name} has other content than was installed"
    return None


def entry(path: Path) -> Entry:
    return Entry(path.stat().st_size, sha256(path))


def sha256(path: Path) -> str:
    """The SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()
