"""What a search did over all texts so far, for those who log it, plot it or ask why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..plan import LayerPlan
from .budget import Budget
from .event import Event


@dataclass(frozen=True, slots=True)
class SearchReport:
    """``phase`` is "optimisation" while plans are tried, "acceleration" once one is used and nothing is tried.

    ``events`` are the newest, oldest first: candidates with their scores, and what was drafted with since when (by
    ``tokens`` emitted). Of ``ran_ms`` of generating, ``search_ms`` went to trials and bookkeeping.
    """

    phase: str
    plan: LayerPlan | None
    events: tuple[Event, ...]
    tokens: int
    ran_ms: float
    search_ms: float

    @classmethod
    def of(
        cls, searching: bool, plan: LayerPlan | None, events: Iterable[Event], tokens: int, budget: Budget
    ) -> SearchReport:
        phase = "optimisation" if searching or plan is None else "acceleration"
        return cls(phase, plan, tuple(events), tokens, budget.ran_ms, budget.spent_ms + budget.kept_ms)

    def to_json(self) -> dict[str, Any]:
        told = {"tokens": self.tokens, "ran_ms": self.ran_ms, "search_ms": self.search_ms}
        return {"phase": self.phase, "plan": _plan(self.plan), **told, "events": [_event(each) for each in self.events]}


def _event(event: Event) -> dict[str, Any]:
    figures = {"hits": event.hits, "of": event.of, "speed": event.speed, "ms": event.ms}
    return {"what": event.what, "tokens": event.tokens, "plan": _plan(event.plan), **figures}


def _plan(plan: LayerPlan | None) -> dict[str, list[int]] | None:
    return None if plan is None else {"attn": sorted(plan.skip_attn), "mlp": sorted(plan.skip_mlp)}
