"""Model folders to spoil, and a hub cache that holds some."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def change(file: Path, **values: Any) -> Path:
    """Set values of a JSON object in a file; its folder."""
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))
    return file.parent


def copy(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


def in_hub_cache(cache: Path, repo_id: str, folder: Path) -> Path:
    """Put a folder where the hub's client would have put a download: snapshots that link to blobs; its snapshot."""
    repo = cache / f"models--{repo_id.replace('/', '--')}"
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = repo / "snapshots" / commit
    for path in (snapshot, repo / "blobs", repo / "refs"):
        path.mkdir(parents=True)
    (repo / "refs" / "main").write_text(commit)
    for file in folder.iterdir():
        shutil.copyfile(file, repo / "blobs" / file.name)
        (snapshot / file.name).symlink_to(Path("../../blobs") / file.name)
    return snapshot


class NetworkCall(BaseException):
    """Not an Exception, so that nobody swallows it."""


def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for an address or a connection is told on."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NetworkCall(f"a network call: {args}")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr("subprocess.Popen", refuse)


Spoil = Callable[[Path], Any]
