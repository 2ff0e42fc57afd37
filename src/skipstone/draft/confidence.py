"""When to stop drafting, by how sure the draft is of itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..accept import Pick
from ..search.calibration import Calibration


@dataclass
class BelowThreshold:
    """SWIFT's early stop: once every row had a token less probable than ``epsilon`` (which is drafted still).

    ``ends``: by row the depth of its first one, where its own draft ends.
    """

    epsilon: float
    ends: dict[int, int] = field(default_factory=dict)

    def __call__(self, picks: list[list[Pick]]) -> bool:
        for place, pick in enumerate(picks[-1]):
            if pick.confidence < self.epsilon:
                self.ends.setdefault(place, len(picks))
        return len(self.ends) == len(picks[-1])


@dataclass
class WhileItPays:
    """Stop where one more token would bring in fewer tokens for its time than drafting as usual does.

    The next token counts if all before it are accepted (``calibration``) and it is too (``acceptance``). It costs
    ``ms`` to draft and verify; ``rate`` is what a millisecond is worth in tokens.
    """

    calibration: Calibration
    rows: int
    acceptance: float
    ms: float
    rate: float
    reach: list[list[float]] = field(init=False)  # by depth and row: the chance that all before are accepted
    confidences: list[list[float]] = field(init=False)  # by row

    def __post_init__(self) -> None:
        self.reach, self.confidences = [[1.0] * self.rows], [[] for _ in range(self.rows)]

    def __call__(self, picks: list[list[Pick]]) -> bool:
        for place, pick in enumerate(picks[-1]):
            self.confidences[place].append(pick.confidence)
        chances = [self.calibration.chance(pick.confidence, self.acceptance) for pick in picks[-1]]
        self.reach.append([before * chance for before, chance in zip(self.reach[-1], chances, strict=True)])
        return sum(self.reach[-1]) * self.acceptance < self.rows * self.ms * self.rate
