"""Comparing speeds on machines that drift: arms take turns, pairs are compared, and medians come with an interval."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ..errors import UsageError

Clock = Callable[[], float]  # seconds
Samples = dict[str, list[float]]  # by arm, a number a round

_RESAMPLES = 2000
_SEED = 0
_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median, and where it lies with 95 % by bootstrap over ``count`` samples."""

    value: float
    low: float
    high: float
    count: int

    @property
    def interval(self) -> list[float]:
        return [self.low, self.high]


@dataclass(frozen=True, slots=True)
class Rounds:
    """At most ``most`` rounds; after the first ``fewest`` none begins that would likely end after ``budget_s``."""

    most: int
    budget_s: float = 240.0
    fewest: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.fewest <= self.most or not self.budget_s > 0:
            raise UsageError(
                f"{self.fewest} to {self.most} rounds in {self.budget_s} s measure nothing: use 1 or more, longer"
            )


def seconds(call: Callable[[], object], clock: Clock) -> float:
    began = clock()
    call()
    return clock() - began


def interleaved(arms: Mapping[str, Callable[[int], float]], rounds: Rounds, clock: Clock) -> Samples:
    """What each arm says of each round, whose number it is given. Every other round goes through the arms backwards."""
    taken: Samples = {name: [] for name in arms}
    began = clock()
    for number in range(rounds.most):
        order = list(arms) if number % 2 == 0 else list(arms)[::-1]
        for name in order:
            taken[name].append(arms[name](number))
        spent = clock() - began
        if number + 1 >= rounds.fewest and spent * (number + 2) / (number + 1) > rounds.budget_s:
            break
    return taken


def timed(arms: Mapping[str, Callable[[], object]], rounds: Rounds, clock: Clock) -> Samples:
    """Seconds of each arm in each round, interleaved; a round before them warms up and is not counted."""
    for call in arms.values():
        call()
    takers = {name: _taker(call, clock) for name, call in arms.items()}
    return interleaved(takers, rounds, clock)


def _taker(call: Callable[[], object], clock: Clock) -> Callable[[int], float]:
    return lambda number: seconds(call, clock)


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Round by round."""
    return [n / d for n, d in zip(numerators, denominators, strict=True)]


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Estimate:
    """The median of the ratios of each round: what slows a whole round down cancels out."""
    return bootstrap(ratios(numerators, denominators))


def bootstrap(samples: Sequence[float]) -> Estimate:
    """The median of ``samples``; the same samples give the same interval. Raises UsageError where there are none."""
    if not samples:
        raise UsageError("there is no median of no samples: measure one round or more")
    drawn = random.Random(_SEED)
    medians = sorted(median(drawn.choices(samples, k=len(samples))) for _ in range(_RESAMPLES))
    cut = round((1 - _LEVEL) / 2 * _RESAMPLES)
    return Estimate(median(samples), medians[cut], medians[-1 - cut], len(samples))
