"""Which sublayers of a network run: the one piece of data in which a draft and its verification differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .errors import PlanError


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """Layers ``start`` .. ``stop - 1`` run, without the attention and MLP sublayers named in the two skip sets.

    A skipped sublayer drops its norm as well, and a skipped attention writes no keys or values. Frozen and hashable,
    so that a plan can key measured costs, captured graphs and the plan store.
    """

    start: int
    stop: int
    skip_attn: frozenset[int] = field(default=frozenset())
    skip_mlp: frozenset[int] = field(default=frozenset())

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise PlanError(
                f"layer plan runs layers {self.start}..{self.stop - 1}: start must be 0 or more, not past stop"
            )
        for layer in self.skip_attn | self.skip_mlp:
            if not self.start <= layer < self.stop:
                raise PlanError(
                    f"layer plan skips layer {layer}, but runs layers {self.start}..{self.stop - 1}: "
                    f"name layers from {self.start} to {self.stop - 1}"
                )

    @classmethod
    def full(cls, num_layers: int) -> LayerPlan:
        """Every sublayer: the target."""
        return cls(0, num_layers)

    @classmethod
    def until(cls, exit_layer: int) -> LayerPlan:
        """Layers 0 .. E-1: the LayerSkip draft."""
        return cls(0, exit_layer)

    @classmethod
    def rest(cls, exit_layer: int, num_layers: int) -> LayerPlan:
        """Layers E .. L-1, resumed from the hidden states of ``until(E)``: the LayerSkip verification."""
        return cls(exit_layer, num_layers)

    @classmethod
    def skipping(cls, num_layers: int, attn: Iterable[int] = (), mlp: Iterable[int] = ()) -> LayerPlan:
        """All layers without the given attention and MLP sublayers: the SWIFT draft."""
        return cls(0, num_layers, frozenset(attn), frozenset(mlp))

    @classmethod
    def uniform(cls, num_layers: int) -> LayerPlan:
        """Every other layer skipped, attention and MLP alike, never the first or last (SWIFT's initial plan)."""
        odd = range(1, num_layers - 1, 2)
        return cls.skipping(num_layers, odd, odd)

    def runs_attn(self, layer: int) -> bool:
        return self.start <= layer < self.stop and layer not in self.skip_attn

    def runs_mlp(self, layer: int) -> bool:
        return self.start <= layer < self.stop and layer not in self.skip_mlp

    def check(self, num_layers: int) -> None:
        """Raise PlanError unless the plan fits a network of ``num_layers`` layers."""
        if self.stop > num_layers:
            raise PlanError(
                f"layer plan runs up to layer {self.stop - 1}, but the model has layers 0..{num_layers - 1}"
            )
