"""A model's exits on held-out rows: those it was trained for row by row, all others on the first few rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ...train.data import Rows
from ...train.evaluate import Figures, evaluate

_SEED, _RESAMPLES = 0, 2000
_LEVEL = 0.95


@dataclass(frozen=True)
class Judged:
    """``by_row`` have the trained exits and the last layer, ``few`` all exits."""

    by_row: tuple[Figures, ...]
    few: Figures

    @classmethod
    def of(cls, model: Any, rows: Rows, few: Rows, trained: Collection[int], exits: Collection[int]) -> Judged:
        """``rows`` for the ``trained``, ``few`` for all ``exits``."""
        by_row = tuple(evaluate(model, row, only=trained) for row in rows.one_by_one())
        return cls(by_row, evaluate(model, few, only=exits))

    @property
    def tokens(self) -> int:
        return sum(figures.tokens for figures in self.by_row)

    @property
    def last_loss(self) -> float:
        return _mean(self.by_row, lambda figures: figures.last_loss)

    @property
    def exits(self) -> list[int]:
        return [each.exit for each in self.few.exits]

    def agreement(self, exit_layer: int) -> float:
        return _mean(self._sights(exit_layer), lambda figures: figures.at(exit_layer).agreement)

    def loss(self, exit_layer: int) -> float:
        return _mean(self._sights(exit_layer), lambda figures: figures.at(exit_layer).loss)

    def agreement_interval(self, exit_layer: int) -> list[float]:
        """95 % by rows drawn anew."""
        drawn, sights = random.Random(_SEED), self._sights(exit_layer)
        means = sorted(
            _mean(drawn.choices(sights, k=len(sights)), lambda figures: figures.at(exit_layer).agreement)
            for _ in range(_RESAMPLES)
        )
        cut = round((1 - _LEVEL) / 2 * _RESAMPLES)
        return [means[cut], means[-1 - cut]]

    def same_choices(self, other: Judged) -> float:
        """The share of tokens where both last layers choose the same."""
        same = sum(
            ours.same_choices(theirs) * ours.tokens for ours, theirs in zip(self.by_row, other.by_row, strict=True)
        )
        return same / self.tokens

    def _sights(self, exit_layer: int) -> Sequence[Figures]:
        known = {each.exit for each in self.by_row[0].exits}
        return self.by_row if exit_layer in known else (self.few,)


def _mean(sights: Sequence[Figures], value: Callable[[Figures], float]) -> float:
    """Over their tokens."""
    return sum(value(figures) * figures.tokens for figures in sights) / sum(figures.tokens for figures in sights)
