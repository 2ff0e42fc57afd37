"""Functions known at a few measured points: linear between them, flat below the first, linear beyond the last."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from .errors import UsageError


@dataclass(frozen=True, slots=True)
class Curve:
    """``values[i]`` >= 0 measured at ``at[i]``, ascending. Where the values never fall, neither does the curve."""

    at: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_grid(self.at, len(self.values))
        if not all(math.isfinite(value) and value >= 0 for value in self.values):
            raise UsageError(f"a curve has values {list(self.values)}: use finite numbers of 0 or more")

    def __call__(self, x: float) -> float:
        return interpolate(self.at, self.values, x)


@dataclass(frozen=True, slots=True)
class Surface:
    """A function of x and y: ``curves[i]`` is its course over y at x = ``at[i]``; each has its own points."""

    at: tuple[float, ...]
    curves: tuple[Curve, ...]

    def __post_init__(self) -> None:
        _check_grid(self.at, len(self.curves))

    def __call__(self, x: float, y: float) -> float:
        return interpolate(self.at, [curve(y) for curve in self.curves], x)


def interpolate(at: Sequence[float], values: Sequence[float], x: float) -> float:
    """The value at x; beyond the last point the last slope goes on, unless it falls, which is taken for noise."""
    if x <= at[0]:
        return values[0]
    if len(at) == 1:
        return values[0]
    right = bisect_left(at, x)
    if right == len(at):
        return values[-1] + max(0.0, _slope(at, values, right - 1)) * (x - at[-1])
    return values[right - 1] + _slope(at, values, right) * (x - at[right - 1])


def _slope(at: Sequence[float], values: Sequence[float], right: int) -> float:
    return (values[right] - values[right - 1]) / (at[right] - at[right - 1])


def _check_grid(at: Sequence[float], values: int) -> None:
    if not at or len(at) != values:
        raise UsageError(f"a curve of {len(at)} points has {values} values: give 1 or more points, each a value")
    if not (all(map(math.isfinite, at)) and all(a < b for a, b in pairwise(at))):
        raise UsageError(f"a curve is measured at {list(at)}: sort the points, finite numbers, each once")
