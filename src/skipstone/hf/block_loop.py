"""The loop over blocks that every path shares: which of them run, and what is tapped on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from torch import Tensor

from ..network import Run
from ..plan import LayerPlan

Shared = TypeVar("Shared")


def run_blocks(
    blocks: Sequence[Callable[[Tensor, bool, bool, Shared], Tensor]],
    hidden: Tensor,
    plan: LayerPlan,
    taps: Sequence[int],
    shared: Shared,
) -> Run:
    """``hidden`` through the plan's blocks, each called as block(x, runs attention, runs MLP, ``shared``)."""
    tapped: dict[int, Tensor] = {}
    for index in range(plan.start, plan.stop):
        if index in taps:
            tapped[index] = hidden
        hidden = blocks[index](hidden, plan.runs_attn(index), plan.runs_mlp(index), shared)
    if plan.stop in taps:
        tapped[plan.stop] = hidden
    return Run(hidden, tapped)
