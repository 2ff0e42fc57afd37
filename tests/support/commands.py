"""One run of the command line, and what came of it."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line the command failed with; nothing else was printed."""
        assert self.code in (1, 2), f"exit code {self.code}: {self.err}"
        assert self.out == ""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: ")
        assert "Traceback" not in self.err
        return lines[0].removeprefix("error: ")


class Stdin(io.TextIOWrapper):
    """Standard input with given bytes; a terminal or not."""

    def __init__(self, content: bytes, terminal: bool) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8")
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


Run = Callable[..., Result]


def assert_says(line: str, pattern: str) -> None:
    assert re.search(pattern, line, re.IGNORECASE), line


def process(*argv: object, **options: Any) -> subprocess.Popen[bytes]:
    """The command line in a process of its own, for exit codes and signals; streams are pipes unless said otherwise."""
    # a test run in the background would hand down that Ctrl-C is ignored
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from skipstone.cli.main import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", program, *map(str, argv)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, **{**pipes, **options})
