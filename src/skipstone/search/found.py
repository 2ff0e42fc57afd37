"""What a search came to: the plan that is drafted with, and what it showed. This outlives the process that found it."""

from __future__ import annotations

from dataclasses import dataclass

from ..plan import LayerPlan


@dataclass(frozen=True, slots=True)
class Found:
    """``matchness`` is of the trial that the plan was taken up for, ``acceptance`` of all that was seen since.

    ``speed`` over plain decoding is what the costs of this machine promise at the best draft length, ``depth``.
    """

    plan: LayerPlan
    depth: int
    speed: float
    matchness: float
    acceptance: float
    tokens: int  # that the search has seen generated
    settled: bool  # nothing was left to try


@dataclass(frozen=True, slots=True)
class Warm:
    """A plan found earlier, to be tried before any other. ``settled``: if it pays, the search need not go on."""

    plan: LayerPlan
    settled: bool = False
