"""How much the loss of each exit counts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..errors import PlanError, UsageError


@dataclass(frozen=True)
class ExitWeights:
    """Later exits count more, as they can be expected to be right more often; the last layer counts most.

    ``share``, unless 0, is what the exits have together, whatever the scale: e(l) then decides among them only.
    e(l) = scale·(0 + 1 + .. + l) before the last layer, e(L-1) = (L-1) + scale·(0 + 1 + .. + (L-2)). So e(0) = 0.
    """

    layers: int
    scale: float
    share: float = 0.0

    def __post_init__(self) -> None:
        if self.layers < 2:
            raise UsageError(f"exit weights for {self.layers} layers: give a model of 2 or more")
        if not 0 <= self.scale < float("inf"):
            raise UsageError(f"an exit scale of {self.scale}: give a number from 0 (the last layer alone) upwards")
        if not 0 <= self.share < 1:
            raise UsageError(f"exits with {self.share} of the loss: give 0 or more, and less than 1")

    def raw(self, layer: int) -> float:
        """e(l)."""
        self._check(layer)
        if layer < self.layers - 1:
            return self.scale * (layer * (layer + 1) // 2)
        return layer + self.scale * (layer * (layer - 1) // 2)

    def normalised(self, on: Collection[int]) -> dict[int, float]:
        """ẽ(l) = e(l) / Σ e of the layers that are ``on``, which must hold the last: they sum to 1."""
        if self.layers - 1 not in on:
            raise UsageError(f"exits after layers {sorted(on)}: the last layer, {self.layers - 1}, must be among them")
        raw = {layer: self.raw(layer) for layer in sorted(set(on))}
        if self.share:
            return self._shared(raw)
        total = sum(raw.values())
        return {layer: weight / total for layer, weight in raw.items()}

    def _shared(self, raw: dict[int, float]) -> dict[int, float]:
        last = self.layers - 1
        among = {layer: layer * (layer + 1) // 2 for layer in raw if layer < last}
        early = sum(among.values())
        if not early:
            return {layer: float(layer == last) for layer in raw}
        return {**{layer: self.share * weight / early for layer, weight in among.items()}, last: 1 - self.share}

    def _check(self, layer: int) -> None:
        if not 0 <= layer < self.layers:
            raise PlanError(f"an exit after layer {layer} of a model with layers 0..{self.layers - 1}")
