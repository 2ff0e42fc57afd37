from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from skipstone.errors import StoreError
from skipstone.store.atomic import building, disk_errors, locked, new_file, set_aside, write_json


def fill(target: Path, content: str) -> None:
    with building(target) as folder:
        (folder / "file").write_text(content)


def test_a_built_folder_appears_complete_and_alone(tmp_path: Path) -> None:
    fill(tmp_path / "model", "whole")
    assert (tmp_path / "model" / "file").read_text() == "whole"
    assert os.listdir(tmp_path) == ["model"]


def test_a_build_that_raises_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), building(tmp_path / "model") as folder:
        (folder / "file").write_text("half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_killed_build_does_not_show_in_the_next(tmp_path: Path) -> None:
    leftover = tmp_path / ".model.building"
    leftover.mkdir()
    (leftover / "stale").write_text("half")
    fill(tmp_path / "model", "whole")
    assert os.listdir(tmp_path / "model") == ["file"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    write_json(target, {"a": 1})
    with pytest.raises(ZeroDivisionError), new_file(target) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert json.loads(target.read_text()) == {"a": 1}
    assert os.listdir(tmp_path) == ["state.json"]


def test_set_aside_keeps_only_the_newest(tmp_path: Path) -> None:
    for content in ("first", "second"):
        fill(tmp_path / "model", content)
        aside = set_aside(tmp_path / "model")
    assert (aside / "file").read_text() == "second"
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
    ],
    ids=["from the system", "wrapped by a library"],
)
def test_a_full_disk_says_where_and_how_much(tmp_path: Path, error: Exception) -> None:
    message = r"models: no space left.*about 270 MB.*--cache"
    with pytest.raises(StoreError, match=message), disk_errors(tmp_path / "models", 270_000_000):
        raise error


def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"Permission denied.*--cache"), disk_errors(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied")


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), disk_errors(tmp_path):
        raise ZeroDivisionError


def test_a_lock_is_free_again_after_an_error(tmp_path: Path) -> None:
    said: list[str] = []
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), locked(tmp_path / "model", said.append):
            raise ZeroDivisionError
    assert said == []
