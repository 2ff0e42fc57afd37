"""How much slower than predicted things are of late: a running median, which outliers of a busy machine do not move."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from threading import Lock

from .errors import UsageError

_WINDOW = 64  # observations kept
_HALF_LIFE = 16  # observations after which one counts half
_DOUBT = 4.0  # imagined observations that say what was believed before any
_FADED = tuple(math.pow(0.5, age / _HALF_LIFE) for age in range(_WINDOW))


class Correction:
    """Factors observed / predicted by *bucket* (any small integer): one for all, and what a bucket adds to it.

    A factor is the median of recent log ratios, weighted by age. Few observations change nothing: until they
    outweigh what was believed before, all is as predicted, and a bucket is like all.
    """

    def __init__(self, recent: Iterable[tuple[int, float]] = ()) -> None:
        self._recent: deque[tuple[int, float]] = deque(recent, maxlen=_WINDOW)  # bucket, log ratio; newest last
        if not all(math.isfinite(ratio) for _, ratio in self._recent):
            raise UsageError("a correction was given log ratios that are not finite: leave them out")
        self._factors: dict[int, float] = {}
        self._lock = Lock()  # texts generated in several threads share one cost model

    @property
    def recent(self) -> tuple[tuple[int, float], ...]:
        """Bucket and log ratio of the observations that still count, oldest first."""
        with self._lock:
            return tuple(self._recent)

    def add(self, bucket: int, ratio: float) -> None:
        """Take in one ratio observed / predicted > 0."""
        with self._lock:
            self._recent.append((bucket, math.log(ratio)))
            self._factors.clear()

    def factor(self, bucket: int) -> float:
        """What to multiply a prediction with; 1 before anything was observed."""
        with self._lock:
            if bucket not in self._factors:
                self._factors[bucket] = math.exp(self._log_factor(bucket))
            return self._factors[bucket]

    def _log_factor(self, bucket: int) -> float:
        aged = list(zip(self._recent, reversed(_FADED[: len(self._recent)]), strict=True))
        overall = _median(0.0, [(ratio, weight) for (_, ratio), weight in aged])
        return _median(overall, [(ratio, weight) for (of, ratio), weight in aged if of == bucket])


def _median(believed: float, seen: list[tuple[float, float]]) -> float:
    """The weighted median of (value, weight) pairs and of ``_DOUBT`` times what was believed before."""
    ordered = sorted([*seen, (believed, _DOUBT)])
    half = sum(weight for _, weight in ordered) / 2
    for value, weight in ordered:
        half -= weight
        if half <= 0:
            return value
    return believed
