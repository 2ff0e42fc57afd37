"""What a search may spend, and on what text."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageError

_MOST = 10**9  # steps that are lent: more than anybody waits for


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
        if not 0 <= self.loan <= _MOST:
            raise UsageError(f"a loan of {str(self.loan)[:40]} plain steps: use 0 to {_MOST:,}")
        if self.deepest < 1:
            raise UsageError(f"depth={self.deepest}: use 1 or more")
