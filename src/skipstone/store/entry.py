"""Reading what a plan file holds, field by field: what is not as it must be is a UsageError that names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import UsageError

_MOST = 2**53  # beyond, numbers are not what they say


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{what} is not an object")
    return value


def by_name(value: Any, what: str) -> Mapping[str, Any]:
    """A mapping whose names will be shown in a terminal."""
    found = mapping(value, what)
    if not all(name.isprintable() for name in found):
        raise UsageError(f"a name in {what} is not printable text")
    return found


def text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.isprintable():  # it will be shown in a terminal
        raise UsageError(f'"{name}" is not printable text')
    return value


def whole(given: Mapping[str, Any], name: str) -> int:
    value = given.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST:
        raise UsageError(f'"{name}" is not a whole number')
    return value


def share(given: Mapping[str, Any], name: str) -> float:
    value = number(given, name)
    if value > 1:
        raise UsageError(f'"{name}" is not between 0 and 1')
    return value


def number(given: Mapping[str, Any], name: str) -> float:
    value = given.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < _MOST:
        raise UsageError(f'"{name}" is not a number of 0 or more')
    return float(value)


def check_label(task: str) -> None:
    """Raises UsageError for a label that no drafter could have been given, and no terminal should show."""
    if "," in task or not task.isprintable() or task != task.strip():
        raise UsageError(f"{task[:40]!r} is no label of a task")
