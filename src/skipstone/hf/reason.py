"""What another library's exception says, in one line for an error of ours."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import SkipstoneError, out_of_memory

_LONGEST = 300


def reason(error: BaseException) -> str:
    """The message on one line, no longer than a reader wants; with the type where the message alone says little."""
    said = " ".join(str(error).split()).removesuffix(".")
    text = said if " " in said else f"{type(error).__name__}: {said}".removesuffix(": ")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def shown(value: object) -> str:
    """A value of somebody's file, short enough for a line."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 80
    return " ".join(short.repr(value).split())


@contextmanager
def told_as(kind: type[SkipstoneError], what: str, *, memory: bool = False) -> Iterator[None]:
    """Whatever another library raises inside becomes ``kind``: ``what``, and the reason, in one line.

    Errors of ours pass, and so does a lack of memory, which is the machine's fault, unless ``memory`` says otherwise.
    """
    try:
        yield
    except SkipstoneError:
        raise
    except BaseException as error:
        if not _is_mishap(error) or (out_of_memory(error) and not memory):
            raise
        raise kind(f"{what}: {reason(error)}") from error


def _is_mishap(error: BaseException) -> bool:
    """Not an interrupt or an exit. Rust's panics, over damaged files, reach Python as more than an Exception."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
