"""What is minimised at each step: dropout, curriculum, exit weights and loss, put together for one micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from .batch import plain, run
from .curriculum import Curriculum
from .dropout import LayerDropout
from .early_exit_loss import EarlyExitLoss, ExitLosses
from .forward import exits
from .teaching import Teaching
from .weights import ExitWeights


@dataclass(frozen=True)
class Place:
    """Which micro-batch this is: the draws of layer dropout depend on it, and on nothing that came before."""

    step: int
    micro_batch: int
    rank: int = 0


@dataclass(frozen=True)
class Objective:
    curriculum: Curriculum
    dropout: LayerDropout
    weights: ExitWeights
    teaching: Teaching | None = None

    def __call__(
        self, model: Any, inner: Any, batch: Mapping[str, Tensor], place: Place, divisor: float | Tensor | None = None
    ) -> ExitLosses:
        """The losses of ``batch`` [B, N]; ``model`` is what to call, ``inner`` the same without wrappers.

        Raises TrainingError where a loss is not finite.
        """
        network = plain(inner)
        teacher = None if self.teaching is None else self.teaching(batch)
        keep = self.dropout.at(place.step, place.micro_batch, place.rank)
        with exits(network, self.curriculum.on(place.step), keep) as hidden:
            run(model, network, batch)
        weights = self.weights.normalised(hidden)
        return EarlyExitLoss.of(network)(hidden, batch["labels"], weights, teacher, divisor)


@dataclass
class Tally:
    """Means by exit over the tokens since they were last taken."""

    sums: dict[int, float] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    tokens: int = 0

    def add(self, losses: ExitLosses) -> None:
        self.tokens += losses.tokens
        for layer, loss in losses.by_layer.items():
            self.sums[layer] = self.sums.get(layer, 0.0) + loss * losses.tokens
            self.counts[layer] = self.counts.get(layer, 0) + losses.tokens

    def take(self) -> dict[str, float]:
        """By exit E (the output of layer E-1), as JSON has its keys; from here on it counts anew."""
        means = {str(layer + 1): self.sums[layer] / max(1, self.counts[layer]) for layer in sorted(self.sums)}
        self.sums.clear()
        self.counts.clear()
        self.tokens = 0
        return means
