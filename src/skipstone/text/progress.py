"""News of what takes long: one line a message."""

from __future__ import annotations

import sys
from collections.abc import Callable

Progress = Callable[[str], None]


def to_stderr(line: str) -> None:
    """The default: out of the way of the output."""
    print(line, file=sys.stderr, flush=True)
