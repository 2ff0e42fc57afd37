"""Losses of several exits and their gradients, chunk by chunk, in one go.

Logits are by far the largest tensors of a training step: tokens × vocabulary for every exit. Here the gradients of a
chunk are worked out as soon as its loss is, so that no more logits than those of one chunk at one exit (and of the
teacher for that chunk) exist at a time, and none is computed twice, as it would be with checkpointing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..hf.head import Head
from .targets import Compare, Targets

_HALF = (torch.float16, torch.bfloat16)


def sum_of_losses(hidden: Sequence[Tensor], weights: Sequence[float], sweep: Sweep) -> tuple[Tensor, Tensor]:
    """Σ_l weight·loss [], differentiable, and the losses [exits], not so; from hidden [n, H] of each exit.

    Losses are sums over tokens: whoever wants a mean divides, and 16-bit gradients do not vanish before that.
    """
    total, losses = _SumOfLosses.apply(sweep, tuple(weights), torch.is_grad_enabled(), *hidden, *sweep.parameters())
    return total, losses


@dataclass(frozen=True)
class Sweep:
    """One pass over all chunks of tokens and, for each, over all exits."""

    head: Head
    targets: Targets
    chunk: int

    def parameters(self) -> list[nn.Parameter]:
        """Of the norm and the head, which all exits share."""
        modules = [
            part for part in (self.head.norm, self.head.project, self.head.linear) if isinstance(part, nn.Module)
        ]
        return list(nn.ModuleList(modules).parameters())

    def run(self, hidden: Sequence[Tensor], weights: Sequence[float], gradients: Gradients) -> Tensor:
        """Losses [exits]; what they depend on is added up in ``gradients``."""
        sums = torch.zeros(len(hidden), dtype=_wide(hidden[0].dtype), device=hidden[0].device)
        for start in range(0, len(self.targets.labels), self.chunk):
            part = slice(start, start + self.chunk)
            compare = self.targets.comparing(part)
            for index, weight in enumerate(weights):
                sums[index] += self._visit(hidden[index][part], compare, gradients.of(index, part, weight))
        return sums

    def _visit(self, hidden: Tensor, compare: Compare, gradients: Chunk) -> Tensor:
        """The loss [] of one chunk [C, H] at one exit."""
        with torch.set_grad_enabled(gradients.wanted):
            hidden = hidden.detach().requires_grad_(gradients.wanted)
            loss = compare(self.head(hidden))
        gradients.add(loss, hidden)
        return loss.detach()


@dataclass(frozen=True)
class Gradients:
    """Where gradients are added up: a buffer for each tensor, None where none is wanted."""

    hidden: Sequence[Tensor | None]
    parameters: Sequence[Tensor]
    sums: Sequence[Tensor | None]  # as parameters, in 32 bits or more: many chunks are added

    @classmethod
    def empty(cls, tensors: Sequence[Tensor], exits: int, wanted: Sequence[bool]) -> Gradients:
        hidden = [torch.empty_like(x) if yes else None for x, yes in zip(tensors[:exits], wanted, strict=False)]
        parameters = tensors[exits:]
        sums = [
            torch.zeros_like(x, dtype=_wide(x.dtype)) if yes else None
            for x, yes in zip(parameters, wanted[exits:], strict=True)
        ]
        return cls(hidden, parameters, sums)

    def of(self, index: int, part: slice, weight: float) -> Chunk:
        buffer = self.hidden[index]
        return Chunk(None if buffer is None else buffer[part], self, weight)

    def all(self) -> list[Tensor | None]:
        return [*self.hidden, *self.sums]


@dataclass(frozen=True)
class Chunk:
    """The gradients of one chunk at one exit."""

    hidden: Tensor | None  # [C, H], a view of the whole
    whole: Gradients
    weight: float

    @property
    def wanted(self) -> bool:
        return self.hidden is not None or any(buffer is not None for buffer in self.whole.sums)

    def add(self, loss: Tensor, hidden: Tensor) -> None:
        if not self.wanted:
            return
        pairs = [(x, s) for x, s in zip(self.whole.parameters, self.whole.sums, strict=True) if s is not None]
        inputs, weight = [hidden, *(x for x, _ in pairs)], loss.new_tensor(self.weight)
        found = torch.autograd.grad(loss, inputs, weight, allow_unused=True)
        if self.hidden is not None:
            self.hidden.copy_(found[0])
        for (_, buffer), gradient in zip(pairs, found[1:], strict=True):
            if gradient is not None:
                buffer += gradient


class _SumOfLosses(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, sweep: Sweep, weights: tuple[float, ...], enabled: bool, *tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        wanted = [enabled and yes for yes in ctx.needs_input_grad[3:]]
        gradients = Gradients.empty(tensors, len(weights), wanted)
        losses = sweep.run(tensors[: len(weights)], weights, gradients)
        ctx.save_for_backward(*gradients.all())
        ctx.dtypes = [x.dtype for x in tensors]
        ctx.mark_non_differentiable(losses)
        return torch.dot(losses, losses.new_tensor(weights)), losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, total: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        # not in place: a graph that is kept may be gone through again
        pairs = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        return None, None, None, *(None if x is None else (x * total).to(dtype) for x, dtype in pairs)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in _HALF else dtype
