"""Curricula: at which step which layers have an early-exit loss. The last layer always has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..errors import PlanError, UsageError


class Curriculum(Protocol):
    def on(self, step: int) -> frozenset[int]:
        """The layers l whose output has a loss at ``step`` (0, 1, ..), the last one among them. Pure."""
        ...


@dataclass(frozen=True)
class Rotational:
    """Every ``period``-th layer, shifted by one each step: each layer has its turn once in ``period`` steps."""

    layers: int
    period: int

    def __post_init__(self) -> None:
        _check_layers(self.layers)
        if not 1 <= self.period <= self.layers:
            raise UsageError(
                f"a rotation with period {self.period} over {self.layers} layers: give a period from 1 to {self.layers}"
            )

    def on(self, step: int) -> frozenset[int]:
        return frozenset(range(step % self.period, self.layers, self.period)) | {self.layers - 1}


@dataclass(frozen=True)
class Gradual:
    """From the last layer down, one layer more each T/(2L) steps: all are on before half of ``total_steps`` T."""

    layers: int
    total_steps: int

    def __post_init__(self) -> None:
        _check_layers(self.layers)
        if self.total_steps < 1:
            raise UsageError(f"a gradual curriculum over {self.total_steps} steps: give 1 or more")

    def on(self, step: int) -> frozenset[int]:
        opened = 1 + 2 * self.layers * step // self.total_steps
        return frozenset(range(max(0, self.layers - opened), self.layers))


@dataclass(frozen=True)
class Fixed:
    """The same few exits at every step, for decoding with just these. Exit E is the output of layer E-1."""

    layers: int
    exits: frozenset[int]

    def __post_init__(self) -> None:
        _check_layers(self.layers)
        for exit_layer in sorted(self.exits):
            if not 2 <= exit_layer <= self.layers:
                raise PlanError(
                    f"exit {exit_layer} cannot be trained in a model of {self.layers} layers: give exits from 2 "
                    f"(the loss gives exit 1 no weight) to {self.layers - 1}"
                )

    def on(self, step: int) -> frozenset[int]:
        return frozenset(exit_layer - 1 for exit_layer in self.exits) | {self.layers - 1}


def _check_layers(layers: int) -> None:
    if layers < 2:
        raise UsageError(f"a curriculum over {layers} layers: give a model of 2 or more")
