"""Which choices beside drafted tokens are worth verifying: SWIFT's dynamic verification, by costs instead of bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..accept import Pick
from ..search.calibration import Calibration
from ..tree import Verified

_CHOICES = 4  # of a token that is doubtful, of which as many are kept as are worth it

Choices = Callable[[Pick, int, int, int], Pick]  # a pick, its row's place and depth, and how many it is to have


@dataclass
class Siblings:
    """Choices behind a drafted token, each worth the chance that the target says it instead.

    ``calibration`` is of such choices, by their probability. ``price(n)`` is what verifying n of them costs, in tokens
    that generating brings in that time. ``choices`` looks for more of them where a token is doubtful: sorting out the
    best of a vocabulary for every token would cost more than they bring.
    """

    calibration: Calibration
    price: Callable[[int], float]
    choices: Choices
    looked: dict[int, list[list[tuple[int, float]]]] = field(default_factory=dict)  # by depth, row: token, probability

    def widths(self, picks: list[list[Pick]], reach: Sequence[Sequence[float]], most: int) -> tuple[int, ...]:
        """How many choices to keep at each depth, the drafted token among them; ``most`` others in all.

        ``picks`` and ``reach`` by depth and row: doubtful picks get more choices in their place, and ``reach`` is the
        chance that all tokens before are right, 0 where the row has no use for one so deep.
        """
        found = sorted(self._candidates(picks, reach), key=lambda candidate: -candidate[0])[: max(most, 0)]
        kept = [depth for _, depth in found[: worth_keeping([chance for chance, _ in found], self.price)]]
        return tuple(1 + kept.count(depth) for depth in range(len(picks)))

    def learn(self, verified: Verified) -> None:
        """From what the target said after each accepted drafted token, where the choices for it were looked at."""
        for depth, (node, said) in enumerate(zip(verified.nodes, verified.said, strict=True)):
            if node != depth:  # a sibling was right, and nothing was drafted behind it
                return
            for token, probability in self.looked[depth][verified.place] if depth in self.looked else ():
                self.calibration.add(probability, token == said)

    def _candidates(self, picks: list[list[Pick]], reach: Sequence[Sequence[float]]) -> Iterator[tuple[float, int]]:
        """(chance summed over the rows, depth) of the choices at depths where all together could be worth a node."""
        least = self.price(1)
        for depth, (by_row, before) in enumerate(zip(picks, reach, strict=True)):
            if sum(chance * (1 - pick.confidence) for pick, chance in zip(by_row, before, strict=True)) > least:
                picks[depth] = [self._widened(pick, place, depth) for place, pick in enumerate(by_row)]
                self.looked[depth] = [list(zip(p.tokens[1:], probabilities(p)[1:], strict=True)) for p in picks[depth]]
                chances = [self._chances(row) for row in self.looked[depth]]
                for choice in range(min(map(len, chances))):
                    yield sum(now * row[choice] for now, row in zip(before, chances, strict=True)), depth

    def _widened(self, pick: Pick, place: int, depth: int) -> Pick:
        """With the token that was drafted first, as others followed it."""
        drafted, wide = pick.tokens[0], self.choices(pick, place, depth, _CHOICES)
        return replace(wide, tokens=[drafted, *(token for token in wide.tokens if token != drafted)])

    def _chances(self, others: Sequence[tuple[int, float]]) -> list[float]:
        """Never rising from one to the next, so that the first so many candidates are always a comb."""
        found: list[float] = []
        for _, probability in others:
            found.append(min([self.calibration.chance(probability, probability), *found[-1:]]))
        return found


def worth_keeping(gains: Sequence[float], price: Callable[[int], float]) -> int:
    """How many of ``gains``, the largest first, bring most above what so many cost; both in tokens."""
    best, taken, brought = 0.0, 0, 0.0
    for count, gain in enumerate(gains, 1):
        brought += gain
        if (above := brought - price(count)) > best:
            best, taken = above, count
    return taken


def probabilities(pick: Pick) -> list[float]:
    """Of a pick's tokens, noise aside, by its scores; 0 where these are no distribution."""
    chances = (pick.scores[pick.tokens] - pick.scores.logsumexp(-1)).exp()
    return [chance if 0 <= chance <= 1 else 0.0 for chance in chances.tolist()]
