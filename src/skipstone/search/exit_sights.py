"""What is known of one exit: how often it chooses as the target does, and how well it knows when it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .book import Tally
from .calibration import Calibration, by_halves

_RECENT = 128.0  # tokens that the agreement of now rests on
_HOPE, _HOPED = 0.5, 8.0  # agreement that a trained exit is believed to have at first, and tokens that this counts for


@dataclass
class ExitSights:
    """``first`` is about the exit's first choice, ``others`` about those behind it, by their probabilities.

    A token drafted behind accepted ones is as good as any: its early layers saw the target's own keys and values. So
    one rate stands for all depths.
    """

    agreement: Tally = field(default_factory=Tally)
    first: Calibration = field(default_factory=Calibration)
    others: Calibration = field(default_factory=lambda: Calibration(by_halves))
    _scale: float | None = None  # both are worked out when first asked for, between two sights
    _groups: Sequence[tuple[float, float]] | None = None

    def see(self, probabilities: Sequence[float], right: int | None) -> None:
        """Of the exit's choices, best first; ``right`` is the one that the target chose, None where it is not there."""
        self._groups = self._scale = None
        self.agreement.add(float(right == 0), 1, _RECENT)
        self.first.add(probabilities[0], right == 0)
        for place, probability in enumerate(probabilities[1:], 1):
            self.others.add(probability, right == place)

    def chances(self, probabilities: Sequence[float]) -> list[float]:
        """Of each choice to be the target's, never rising from one to the next."""
        found = [self._first(probabilities[0])]
        for probability in probabilities[1:]:
            found.append(min(self.others.chance(probability, probability), found[-1]))
        return found

    @classmethod
    def hopeful(cls) -> ExitSights:
        """Of an exit that the model was trained for."""
        return cls(Tally.of_share(_HOPE, _HOPED))

    @property
    def seen(self) -> bool:
        return self.first.count > 0

    @property
    def groups(self) -> Sequence[tuple[float, float]]:
        """First choices by confidence: (share of all, chance of being right). While few were seen, some are made up."""
        groups = self._groups
        if groups is None:
            made_up = _HOPED / (_HOPED + self.first.count)
            seen = [((1 - made_up) * share, self._first(middle)) for share, middle in self.first.groups()]
            self._groups = groups = [*seen, (made_up, self.agreement.share)]
        return groups

    @property
    def mean(self) -> float:
        """The chance of any first choice to be right."""
        return sum(share * chance for share, chance in self.groups)

    def _first(self, confidence: float) -> float:
        """What a first choice of this confidence is worth. Before such were seen: as much more or less than it says
        as all of them together are.
        """
        scale = self._scale
        if scale is None:
            mean = sum(share * middle for share, middle in self.first.groups())
            self._scale = scale = self.agreement.share / mean if mean else 1.0
        return self.first.chance(confidence, min(confidence * scale, 1.0))
