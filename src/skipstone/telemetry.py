"""What happened in each verification, and the figures everybody quotes, with the formula beside each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one step, shared out evenly over its rows."""

    draft_s: float = 0.0
    verify_s: float = 0.0
    search_s: float = 0.0
    other_s: float = 0.0
    prefill_s: float = 0.0

    def __add__(self, more: Timing) -> Timing:
        return Timing(
            self.draft_s + more.draft_s,
            self.verify_s + more.verify_s,
            self.search_s + more.search_s,
            self.other_s + more.other_s,
            self.prefill_s + more.prefill_s,
        )

    @property
    def total_s(self) -> float:
        return self.draft_s + self.verify_s + self.search_s + self.other_s + self.prefill_s


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One verification of one row."""

    row: int
    nodes: int  # live drafted nodes, siblings included, root excluded
    drafted: int  # live backbone tokens drafted
    accepted: int  # of these, accepted
    rescued: int  # accepted nodes off the backbone
    emitted: int  # tokens given out, bonus included, after stop rules
    timing: Timing
    lossy: str = ""  # how the network is not the whole model; see Summary
    ends: int = 0  # 1: the text ends in a drafted token, which nothing follows and is not among the accepted

    @property
    def right(self) -> int:
        """Backbone tokens that the target chose as well."""
        return self.accepted + self.ends

    @property
    def judged(self) -> int:
        """Backbone tokens that the target's choice is known for: those that were right, and the first that was not."""
        return self.right if self.ends else min(self.drafted, self.accepted + 1)


class Sink(Protocol):
    """Anything that wants every record: a summary, a log, a metrics registry."""

    def record(self, record: StepRecord) -> None: ...


@dataclass
class Summary:
    """Sums over records, and the ratios made of them.

    ``lossy`` says how these are not figures of the model that was loaded ("early exit at layer 8 of 30"), else "".
    """

    steps: int = 0
    nodes: int = 0
    drafted: int = 0
    accepted: int = 0
    rescued: int = 0
    emitted: int = 0
    timing: Timing = field(default_factory=Timing)
    accepted_histogram: Counter[int] = field(default_factory=Counter)  # steps by accepted tokens, rescues included
    drafted_at: Counter[int] = field(default_factory=Counter)  # backbone tokens drafted at depth 1, 2, …
    accepted_at: Counter[int] = field(default_factory=Counter)  # of these, accepted
    lossy: str = ""

    def record(self, record: StepRecord) -> None:
        self.steps += 1
        self.nodes += record.nodes
        self.drafted += record.drafted
        self.accepted += record.accepted
        self.rescued += record.rescued
        self.emitted += record.emitted
        self.timing += record.timing
        self.accepted_histogram[record.accepted + record.rescued] += 1
        self.drafted_at.update(range(1, record.drafted + 1))
        self.accepted_at.update(range(1, record.accepted + 1))
        self._label(record.lossy)

    def merge(self, other: Summary) -> None:
        """Add another summary's sums to this one."""
        for name in ("steps", "nodes", "drafted", "accepted", "rescued", "emitted", "timing"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.accepted_histogram.update(other.accepted_histogram)
        self.drafted_at.update(other.drafted_at)
        self.accepted_at.update(other.accepted_at)
        self._label(other.lossy)

    def _label(self, lossy: str) -> None:
        """One lossy part makes the whole lossy; the parts may be so in different ways."""
        if lossy and lossy not in self.lossy.split("; "):
            self.lossy = f"{self.lossy}; {lossy}" if self.lossy else lossy

    @property
    def mean_accepted_length(self) -> float:
        """M = emitted tokens / verifications, the bonus token included."""
        return self.emitted / self.steps if self.steps else 0.0

    @property
    def acceptance_rate(self) -> float:
        """α = accepted backbone tokens / drafted backbone tokens; 0 where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def acceptance_by_depth(self) -> list[float]:
        """α_i = accepted at depth i / drafted at depth i, i = 1, 2, …"""
        return [self.accepted_at[depth] / drafted for depth, drafted in sorted(self.drafted_at.items())]

    @property
    def decode_s(self) -> float:
        """Seconds without the prompt's prefill."""
        return self.timing.total_s - self.timing.prefill_s
