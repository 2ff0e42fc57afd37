"""What a failed command says, in one line on stderr, and its exit code."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import SkipstoneError, UsageError, out_of_memory

FAILED, MISUSED, INTERRUPTED, NOBODY_READS = 1, 2, 128 + 2, 128 + 13

_NO_HOME = "Could not determine home directory"  # what pathlib says


@dataclass
class Invocation:
    """One run of the command line."""

    argv: Sequence[str] = ()
    debug: bool = False


def report(error: BaseException, invocation: Invocation) -> int:
    """Say what ended the command, with its traceback in debug mode; returns the exit code."""
    code, line = outcome(error, invocation.argv)
    if invocation.debug and code in (FAILED, MISUSED) and not isinstance(error, SystemExit):
        traceback.print_exception(error)
    if code == NOBODY_READS:
        _close_stdout()
    elif line:
        print(line, file=sys.stderr, flush=True)
    return code


def outcome(error: BaseException, argv: Sequence[str] = ()) -> tuple[int, str]:
    """Exit code and line for an exception; typer's own come by what they can do, as its versions name them apart."""
    if any(isinstance(each, KeyboardInterrupt) for each in _chain(error)):
        return INTERRUPTED, "\ninterrupted"
    if isinstance(error, BrokenPipeError):
        return NOBODY_READS, ""
    if isinstance(error, SystemExit):
        return (error.code if isinstance(error.code, int) else int(bool(error.code))), ""
    if hasattr(error, "format_message"):
        return MISUSED, _usage(error, argv)
    if hasattr(error, "exit_code"):  # --help and --version
        return int(error.exit_code), ""
    return (MISUSED if isinstance(error, UsageError) else FAILED), _error(_message(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and those it came from: an interrupted import may turn up as another error."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _message(error: BaseException) -> str:
    said = str(error)
    if isinstance(error, SkipstoneError):
        return said
    if out_of_memory(error):
        return f"out of memory ({said or 'no details'}): try fewer --rows, a smaller model or --dtype bfloat16"
    if isinstance(error, RuntimeError) and said.startswith(_NO_HOME):
        return "a path begins with ~ and a name that has no home on this machine: write the path without ~"
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return f"{str(error.filename)[:80]}…: a name too long for this disk; give a shorter one"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"no space left on the disk{f' for {error.filename}' if error.filename else ''}: free some"
    return f"unexpected {type(error).__name__}: {said} (run again with --debug for the traceback; please report it)"


def _usage(error: BaseException, argv: Sequence[str]) -> str:
    """A mistake in the command line, as typer puts it, and where to look; nothing where no arguments gave the help."""
    said = str(error.format_message()).rstrip(".")  # type: ignore[attr-defined]
    if not said:
        return ""
    if getattr(error, "option_name", "") == _LOSSY:
        said = f"{_LOSSY} is for skipstone generate alone: it is lossy, and this command is about the whole model"
    elif close := getattr(error, "possibilities", None) if hasattr(error, "option_name") else None:
        said = f'no such option {error.option_name}: did you mean "{close[0]}"?'  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "skipstone"
    return _error(f"{said[:1].lower()}{said[1:]}{_given(error, said, argv)} (see {command} --help)")


_LOSSY = "--early-exit"  # the others judge or change the model itself


def _given(error: BaseException, said: str, argv: Sequence[str]) -> str:
    """The value of the option that typer does not like, where its message leaves it out."""
    names = getattr(getattr(error, "param", None), "opts", [])
    values = [argv[i + 1] for i, word in enumerate(argv[:-1]) if word in names]
    values += [word.partition("=")[2] for word in argv if word.partition("=")[0] in names and "=" in word]
    return f", not {values[0]!r}" if values and repr(values[0]) not in said else ""


def _error(message: str) -> str:
    return f"error: {' '.join(message.split())}"


def _close_stdout() -> None:
    """Or Python would try, and complain, once more at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # a stdout without a file, or closed
        return
