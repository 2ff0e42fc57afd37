"""A plan that promises more than the one in use, tried again beside it on text that neither was chosen for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..drafting import DraftState
from .book import Tally
from .searcher import Trial
from .window import Window

_KNOWN = 16.0  # positions that what was known of either plan before stands for
_LOOKS = 3  # at fresh text; who is ahead after each of them has won


@dataclass(frozen=True)
class Contest:
    """The best of many trials owes much of it to luck, so what it showed there counts for little here.

    ``marks``: where the fresh text of each row begins; a row that holds a shorter text by now holds another one.
    """

    trial: Trial  # the one that promised more
    challenger: Tally
    holder: Tally
    marks: Mapping[int, int]
    looks: int = 0

    @classmethod
    def begun(cls, trial: Trial, challenger: float, holder: float, state: DraftState) -> Contest:
        """``challenger`` and ``holder``: the acceptance that is known of each so far."""
        return cls(trial, Tally.of_share(challenger, _KNOWN), Tally.of_share(holder, _KNOWN), _ends(state))

    def newest(self, state: DraftState, size: int, since: Mapping[int, int]) -> Window:
        """As ``Window.newest``, of fresh text only."""
        ends = _ends(state)
        marks = {row: mark for row, mark in self.marks.items() if mark <= ends.get(row, 0)}
        return Window.newest(state, size, {row: max(marks.get(row, 0), since.get(row, 0)) for row in ends})

    def after(self, challenger: int, holder: int, of: int, state: DraftState) -> Contest:
        """Once both had that many hits on the same ``of`` fresh positions."""
        self.challenger.add(challenger, of)
        self.holder.add(holder, of)
        return Contest(self.trial, self.challenger, self.holder, _ends(state), self.looks + 1)

    @property
    def over(self) -> bool:
        return self.looks >= _LOOKS


def _ends(state: DraftState) -> dict[int, int]:
    """How long the text in each row is."""
    return {row: len(history) for row, history in zip(state.rows, state.history, strict=True)}
