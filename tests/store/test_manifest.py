from __future__ import annotations

from pathlib import Path

import pytest

from skipstone.store.manifest import NAME, verify, write_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "weights").write_bytes(b"0123456789")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "config").write_text("{}")
    write_manifest(tmp_path, "made in a test")
    return tmp_path


def test_a_sound_folder_has_no_problems(folder: Path) -> None:
    assert verify(folder) == verify(folder, full=True) == ()


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "sub" / "config").unlink()
    assert verify(folder) == ("config is missing",)


def test_a_truncated_file_is_named_with_both_sizes(folder: Path) -> None:
    (folder / "weights").write_bytes(b"012")
    assert verify(folder) == ("weights has 3 bytes, not 10",)


def test_changed_content_shows_in_the_full_check_only(folder: Path) -> None:
    (folder / "weights").write_bytes(b"9876543210")
    assert verify(folder) == ()
    assert verify(folder, full=True) == ("weights has other content than was installed",)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99, "files": {}}', '{"format": 1, "files": {"a": 3}}'])
def test_an_unreadable_manifest_is_a_problem(folder: Path, text: str) -> None:
    (folder / NAME).write_text(text)
    assert verify(folder) == (f"{NAME} is missing or unreadable",)


def test_no_folder_is_a_problem(tmp_path: Path) -> None:
    assert verify(tmp_path / "nowhere") != ()
