"""The contract between tuner and searchers: a searcher knows numbers, and nothing of models, texts or clocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..plan import LayerPlan
from .sublayer import Sublayer


@dataclass(frozen=True, slots=True)
class Trial:
    """How a plan did on text that the target wrote.

    ``hits`` of ``of`` positions were said alike (matchness is hits/of); ``speed`` is what drafting with the plan comes
    to over plain decoding, by the costs of its sublayers and at the best draft length.
    """

    plan: LayerPlan
    hits: int
    of: int
    speed: float

    @property
    def matchness(self) -> float:
        return self.hits / self.of if self.of else 0.0


class Signals(Protocol):
    """What a searcher may ask about sublayers. Costs about as much as a trial, so ask seldom."""

    def ranked(self, plan: LayerPlan) -> list[Sublayer]:
        """The sublayers that ``plan`` runs and that may be left out, those least missed for their price first."""
        ...


class NoSignals:
    """For searchers that ask for none."""

    def ranked(self, plan: LayerPlan) -> list[Sublayer]:
        return []


class Searcher(Protocol):
    def ask(self, signals: Signals) -> LayerPlan | None:
        """The next plan to try; None where nothing is worth trying any more."""
        ...

    def tell(self, trial: Trial) -> None:
        """How the plan asked for last did."""
        ...
