"""The diary of a search."""

from __future__ import annotations

from dataclasses import dataclass

from ..plan import LayerPlan


@dataclass(frozen=True, slots=True)
class Event:
    """One thing the tuner did; ``tokens`` is how many had been emitted, ``ms`` what it took."""

    what: str  # "trial", "again" (either plan of a contest), "adopted", "declined", "returned", "dropped", "settled"
    tokens: int
    plan: LayerPlan | None
    hits: int = 0
    of: int = 0
    speed: float = 0.0
    ms: float = 0.0
