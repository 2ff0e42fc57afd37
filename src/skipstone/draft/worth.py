"""Which drafted tokens an early exit should have verified: those that are worth their time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..accept import Pick
from ..search.exit_prices import ExitPrices
from ..search.exit_sights import ExitSights
from .siblings import probabilities, worth_keeping


@dataclass
class Worth:
    """Drafting goes on while a token brings in more than generating does in the time it takes.

    ``rate`` is what a millisecond is worth, in tokens of all rows. A look (the draft's head) says how likely choices
    are the target's. Running a choice costs a pass of the early layers, unless it shares one, and a node of the rest.
    ``most`` nodes in all, the root included; a row has no use for tokens deeper than its own of ``limits``.
    """

    sights: ExitSights
    prices: ExitPrices
    rate: float
    limits: Sequence[int]
    most: int
    reach: list[list[float]] = field(init=False)  # by depth and row: the chance that all first choices so far are right
    chances: list[list[list[float]]] = field(default_factory=list)  # by depth, row, choice; if those before are right
    probabilities: list[list[list[float]]] = field(default_factory=list)  # the exit's own, likewise
    ms: float = 0.0  # that the cycle should take, once ``widths`` are known

    def __post_init__(self) -> None:
        self.reach = [[1.0] * len(self.limits)]

    def __call__(self, picks: list[list[Pick]]) -> bool:
        """Whether drafting should stop, now that the last of ``picks`` were looked at."""
        by_row = [probabilities(pick) for pick in picks[-1]]
        depth = len(picks)
        chances = [self.sights.chances(row) for row in by_row]
        chances = [row if depth <= most else [0.0] * len(row) for row, most in zip(chances, self.limits, strict=True)]
        self.probabilities.append(by_row)
        self.chances.append(chances)
        self.reach.append([so_far * row[0] for so_far, row in zip(self.reach[-1], chances, strict=True)])
        return not self._pays(sum(self.reach[-1]), depth) or not self._look_pays(depth + 1)

    def widths(self) -> tuple[int, ...]:
        """How many choices to keep by depth, what has run and what one more pass of the early layers is worth."""
        depth = len(self.chances)
        candidates = self._candidates()[: self.most - depth]
        taken = worth_keeping(
            [chance for chance, _ in candidates], lambda count: self.rate * self.prices.late(depth, count)
        )
        looks = depth * (self.prices.look + self.prices.early[1])
        self.ms = looks + self.prices.early[taken] + self.prices.rest[depth + taken]
        kept = [place for _, place in candidates[:taken]]
        widths = [1 + kept.count(index) for index in range(depth)]
        widths[-1] -= 1  # its first choice has not run, and is a candidate too
        return tuple(widths) if widths[-1] else tuple(widths[:-1])

    def _candidates(self) -> list[tuple[float, int]]:
        """(chance summed over the rows, index of the depth) of every choice that has not run, the likeliest first.

        No choice comes before a likelier one of its depth, so that the first so many are always a comb.
        """
        last = len(self.chances) - 1
        found = [
            (sum(self.reach[index][row] * by_row[row][choice] for row in range(len(self.limits))), index)
            for index, by_row in enumerate(self.chances)
            for choice in range(index < last, min(map(len, by_row)))
        ]
        return sorted(found, key=lambda candidate: -candidate[0])

    def _pays(self, brought: float, ran: int) -> bool:
        """One more node behind ``ran``."""
        return ran < self.most and brought > self.rate * self.prices.late(ran, 1)

    def _look_pays(self, ran: int) -> bool:
        """At a token behind ``ran`` nodes, by what looks usually find."""
        if ran >= self.most:
            return False
        node, reach = self.rate * self.prices.late(ran, 1), sum(self.reach[-1])
        hoped = sum(share * max(reach * chance - node, 0.0) for share, chance in self.sights.groups)
        return hoped > self.rate * self.prices.look
