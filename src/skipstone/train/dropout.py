"""Layer dropout: which samples of a batch leave a layer out, and how likely that is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..errors import UsageError
from ..noise import Stream, key, uniform

Keep = Callable[[int, int], Tensor]  # (layer, batch) -> [batch] bool on the CPU: which samples go through the layer


@dataclass(frozen=True)
class LayerDropout:
    """Layer l of ``layers`` is left out by a sample with probability p(l, t) = S(t)·D(l)·p_max at step t.

    D(l) = 2^(l/(L-1)) - 1 rises from 0 at the first layer to 1 at the last. S(t) is 1 (``constant``: continual
    pretraining, fine-tuning) or 2^(t/(T-1)) - 1 for T ``total_steps`` (``exponential``: from scratch). Nothing is
    rescaled.

    How many samples a layer drops is p·batch, rounded up or down at random so that the mean is right; that draw is
    keyed by (seed, step, layer, micro-batch) and is the same on every rank. Which samples they are is keyed by the
    rank as well, each sample being as likely as any other.
    """

    layers: int
    p_max: float
    seed: int
    schedule: Literal["constant", "exponential"] = "constant"
    total_steps: int | None = None

    def __post_init__(self) -> None:
        if self.layers < 2:
            raise UsageError(f"layer dropout over {self.layers} layers: give a model of 2 or more")
        if not 0 <= self.p_max < 1:
            raise UsageError(f"p_max {self.p_max} is no dropout probability: give 0 or more, and less than 1")
        if self.schedule not in ("constant", "exponential"):
            raise UsageError(f'schedule "{self.schedule}" is not known: give "constant" or "exponential"')
        if self.schedule == "exponential" and (self.total_steps is None or self.total_steps < 2):
            raise UsageError(f"an exponential schedule over total_steps={self.total_steps}: give 2 steps or more")

    def probability(self, layer: int, step: int) -> float:
        """p(l, t); steps past the last one count as the last."""
        if not 0 <= layer < self.layers:
            raise UsageError(f"layer {layer} of a model with layers 0..{self.layers - 1}")
        return self._by_step(step) * (2 ** (layer / (self.layers - 1)) - 1) * self.p_max

    def dropped(self, step: int, layer: int, micro_batch: int, batch: int) -> int:
        """How many of ``batch`` samples leave the layer out, the same on every rank."""
        coin = uniform(self._key(step, layer, micro_batch), 0, Stream.DROP_COUNT)
        return min(batch, math.floor(self.probability(layer, step) * batch + coin))

    def kept(self, step: int, layer: int, micro_batch: int, batch: int, rank: int = 0) -> Tensor:
        """[batch] bool on the CPU: which samples go through the layer."""
        seed = key(self._key(step, layer, micro_batch), rank, Stream.DROP_KEY)
        order = sorted(range(batch), key=lambda row: uniform(seed, row, Stream.DROP_ROWS))
        kept = torch.ones(batch, dtype=torch.bool)
        kept[order[: self.dropped(step, layer, micro_batch, batch)]] = False
        return kept

    def at(self, step: int, micro_batch: int, rank: int = 0) -> Keep:
        """The draws of one forward pass, as ``exits`` takes them."""
        return lambda layer, batch: self.kept(step, layer, micro_batch, batch, rank)

    def _by_step(self, step: int) -> float:
        if self.schedule == "constant" or self.total_steps is None:
            return 1.0
        return 2 ** (min(step / (self.total_steps - 1), 1.0)) - 1

    def _key(self, step: int, layer: int, micro_batch: int) -> int:
        seed = self.seed
        for number in (step, layer, micro_batch):
            seed = key(seed, number, Stream.DROP_KEY)
        return seed
