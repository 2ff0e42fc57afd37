"""What another library's exception says, in one line for an error of ours."""

from __future__ import annotations

_LONGEST = 300


def reason(error: BaseException) -> str:
    """The message on one line, no longer than a reader wants; with the type where the message alone says little."""
    said = " ".join(str(error).split()).removesuffix(".")
    text = said if " " in said else f"{type(error).__name__}: {said}".removesuffix(": ")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
