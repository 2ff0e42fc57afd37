"""Command lines run in this process, on a tiny model of a few kilobytes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from commands import Result, Run, Stdin
from tiny_folder import tiny_folder

from skipstone.cli.main import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """``run(*argv, stdin=b"", terminal=False)``: one command line, and what came of it."""

    def run(*argv: object, stdin: bytes = b"", terminal: bool = False) -> Result:
        monkeypatch.setattr(sys, "stdin", Stdin(stdin, terminal))
        code = main([str(word) for word in argv])
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def damaged(folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model to spoil."""
    return Path(shutil.copytree(folder, tmp_path / "damaged"))
