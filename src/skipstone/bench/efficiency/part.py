"""A part of the benchmark: the figures it gives, and what it does where it cannot give one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import SkipstoneError
from .lab import Lab

# by key: an Estimate, Absent, or anything JSON can hold; keys that are no figure are details of one
Findings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Absent:
    """In the place of a figure that could not be had."""

    reason: str


class CannotMeasure(SkipstoneError):
    """Why a part gives no figure at all."""


@dataclass(frozen=True, slots=True)
class Figure:
    """``wanted`` says when it is good, ``meaning`` what it is."""

    key: str
    meaning: str
    wanted: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    figures: tuple[Figure, ...]
    run: Callable[[Lab], Findings]

    @property
    def keys(self) -> list[str]:
        return [figure.key for figure in self.figures]


def why(error: Exception) -> str:
    """An exception as a reason in one line."""
    said = " ".join(str(error).split()) or "no details"
    return said if isinstance(error, SkipstoneError) else f"{type(error).__name__}: {said}"
