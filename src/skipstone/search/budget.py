"""How much time the search may take: a share of the run, and some of it in advance."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Budget:
    """``share`` of all time goes to the search; with 1 time does not matter. What a loan let it take before that much
    was its share is repaid before it gets more. All times are milliseconds.
    """

    share: float
    ran_ms: float = 0.0
    spent_ms: float = 0.0  # on trials
    kept_ms: float = 0.0  # on the books: choosing, looking up prices
    lent_at: float | None = 0.0  # earned by the time of the newest loan, which a cold start is; None: there is none
    rests_until: float = 0.0  # of the run, before which no trial could be paid for
    trial_ms: float = 0.0  # of the last trial, with all that belongs to it

    def affords(self, ms: float, loan_ms: float) -> bool:
        """Whether a trial of about ``ms``, or what the last one took, fits now; ``loan_ms`` is what a loan comes to."""
        books = min(self.kept_ms, self.share * self.ran_ms / 2)  # where steps are short they must not eat up all of it
        taken = self.spent_ms + books + max(ms, self.trial_ms)
        advance = 0.0 if self.lent_at is None else self.lent_at + loan_ms
        self.rests_until = 0.0 if taken <= advance or self.share == 1 else taken / self.share
        return not self.rests

    @property
    def rests(self) -> bool:
        """Whether a trial is out of the question, by what is known without asking what one costs."""
        return self.ran_ms < self.rests_until

    def spend(self, ms: float) -> None:
        self.spent_ms += ms
        self.trial_ms = ms

    def lend(self) -> None:
        """From now on, as far as the loan before is repaid."""
        self.lent_at, self.rests_until = self.share * self.ran_ms, 0.0

    @property
    def used(self) -> float:
        """The share that trials and books have taken so far."""
        return (self.spent_ms + self.kept_ms) / self.ran_ms if self.ran_ms else 0.0
