"""The newest verified tokens of a text: what a plan, run in the place of the model, should have said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..drafting import DraftState


@dataclass(frozen=True)
class Window:
    """Positions ``first`` .. of the text in row ``row``, number ``place`` of the state; each is to say the next token.

    Only tokens that the target chose are wanted: what a prompt says is nobody's choice.
    """

    place: int
    row: int
    first: int
    inputs: tuple[int, ...]
    wanted: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def positions(self) -> range:
        return range(self.first, self.first + len(self))

    @classmethod
    def newest(cls, state: DraftState, size: int, since: Mapping[int, int] | None = None) -> Window:
        """Up to ``size`` positions of the text that has most to offer; none from before ``since[row]``.

        Fewer where the cache's scratch is short of slots, or the text of tokens.
        """
        windows = [cls._of(state, place, size, (since or {}).get(row, 0)) for place, row in enumerate(state.rows)]
        return max(windows, key=len)

    @classmethod
    def _of(cls, state: DraftState, place: int, size: int, since: int) -> Window:
        row, history = state.rows[place], state.history[place]
        earliest = max(state.cache.prompt_lengths[row], since, 1)  # the first token to be wanted
        last = len(history) - 1
        first = max(earliest, last + 1 - min(size, state.limits.nodes))
        wanted: Sequence[int] = history[first : last + 1]
        return cls(place, row, first - 1, tuple(history[first - 1 : last]), tuple(wanted))
