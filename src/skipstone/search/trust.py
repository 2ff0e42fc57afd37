"""How far a trial's promise is believed: less, after plans that did not keep theirs."""

from __future__ import annotations

from dataclasses import dataclass, field

MARGIN = 1.02  # what a plan must promise over plain decoding
_DISTRUST = 0.1  # more, for each plan that did not keep its promise of late, up to three of them
_AGAIN = 1000  # tokens until that is forgiven


@dataclass
class Trust:
    """``broken``: how many tokens had been emitted when plans were dropped, of late."""

    broken: list[int] = field(default_factory=list)

    def asks(self, tokens: int) -> float:
        """The speed over plain decoding that a plan must promise now, after ``tokens`` were emitted."""
        self.broken = [at for at in self.broken if tokens - at < _AGAIN]
        return MARGIN + _DISTRUST * min(len(self.broken), 3)
