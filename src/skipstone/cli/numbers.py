"""Lists of whole numbers, as options take them: 4,8 or 2-6,12."""

from __future__ import annotations

from ..errors import UsageError

_MOST = 1000


def numbers(option: str, given: str | None) -> tuple[int, ...]:
    """Empty where nothing was given. Raises UsageError, naming the option."""
    if given is None:
        return ()
    try:
        found = [number for part in given.split(",") for number in _range(part)]
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f'{option} "{given[:40]}" is no list of numbers: write 4,8 or 2-6,12, up to {_MOST} of them'
        ) from error
    return tuple(found)


def _range(part: str) -> range:
    first, dash, last = part.strip().partition("-")
    found = range(int(first), int(last if dash else first) + 1)
    if not 0 < len(found) <= _MOST:
        raise ValueError(part)
    return found
