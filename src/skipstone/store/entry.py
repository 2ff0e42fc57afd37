"""Reading what a plan file holds, field by field: what is not as it must be is a UsageError that names it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from ..errors import UsageError


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{what} is not an object")
    return value


def text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise UsageError(f'"{name}" is not text')
    return value


def whole(given: Mapping[str, Any], name: str) -> int:
    value = given.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UsageError(f'"{name}" is not a whole number')
    return value


def share(given: Mapping[str, Any], name: str) -> float:
    value = number(given, name)
    if value > 1:
        raise UsageError(f'"{name}" is not between 0 and 1')
    return value


def number(given: Mapping[str, Any], name: str) -> float:
    value = given.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value) or value < 0:
        raise UsageError(f'"{name}" is not a number of 0 or more')
    return float(value)
