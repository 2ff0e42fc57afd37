"""What a search may spend, and on what text."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageError


@dataclass(frozen=True)
class TunerOptions:
    """``window`` γ: verified tokens replayed. ``share`` of all time for the search, ``loan`` plain steps lent to it."""

    window: int = 32
    share: float = 0.01
    loan: int = 80
    deepest: int = 16

    def __post_init__(self) -> None:
        if self.window < 2:
            raise UsageError(f"a window of {self.window} verified tokens shows nothing: use 2 or more")
        if not 0 < self.share <= 1:
            raise UsageError(f"a search budget of {self.share} of the run: use a share above 0, up to 1")
        if self.loan < 0 or self.deepest < 1:
            raise UsageError(f"loan={self.loan} and depth={self.deepest}: use 0 or more, and 1 or more")
