"""The entry point: whatever happens ends in one line and an exit code."""

from __future__ import annotations

import io
import os
import signal
import sys
import warnings
from collections.abc import Sequence

from .outcome import Invocation, report


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line, by default the process's own; returns its exit code and raises nothing."""
    invocation = Invocation(sys.argv[1:] if argv is None else argv)
    _open_closed()
    try:
        with warnings.catch_warnings():
            if not sys.warnoptions:
                warnings.simplefilter("ignore")  # of other libraries, for their developers
            _forgive(sys.stdout)
            from .app import run  # inside, so that an interrupted import ends quietly, too

            run(invocation)
            sys.stdout.flush()
    except BaseException as error:
        code = report(error, invocation)
        if argv is None and code >= _SIGNALLED:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # impatience must not disturb the end
        return code
    return 0


def _open_closed() -> None:
    """A closed output stream is one nobody reads: Python leaves None in its place."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


_SIGNALLED = 128


def _forgive(stream: object) -> None:
    """A terminal that cannot show a character gets a question mark in its place."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")
