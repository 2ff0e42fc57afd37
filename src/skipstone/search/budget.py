"""How much time the search may take: a share of the run, and some of it in advance."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Budget:
    """``share`` of all time goes to the search. ``advance_ms`` it may take before that much is its share: what was lent
    is repaid before it gets more.
    """

    share: float
    advance_ms: float = 0.0
    ran_ms: float = 0.0
    spent_ms: float = 0.0

    def due(self, ms: float) -> float:
        """Milliseconds that must have run before a trial of about ``ms`` fits."""
        taken = self.spent_ms + ms
        return 0.0 if taken <= self.advance_ms else taken / self.share

    @property
    def used(self) -> float:
        """The share it has taken so far."""
        return self.spent_ms / self.ran_ms if self.ran_ms else 0.0
