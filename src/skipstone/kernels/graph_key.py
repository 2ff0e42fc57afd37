"""Which runs may share one recorded graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..cache import Placement
from ..plan import LayerPlan

_FINE = 1024  # extents double up to here, then grow by steps
_STEPS = ((4096, 512), (1 << 62, 1024))


def bucket_of(extent: int, capacity: int, smallest: int = 128) -> int:
    """The slots a graph reads for a run of ``extent`` slots: few sizes, so few graphs; never more than there are.

    >>> [bucket_of(extent, 1 << 20) for extent in (5, 128, 129, 1025, 4097)]
    [128, 128, 256, 1536, 5120]
    """
    if extent <= _FINE:
        return min(max(smallest, 1 << (extent - 1).bit_length()), capacity)
    step = next(step for limit, step in _STEPS if extent <= limit)
    return min(-(-extent // step) * step, capacity)


@dataclass(frozen=True, slots=True)
class RunKey:
    """Everything about a run that is not a tensor in its graph."""

    plan: LayerPlan
    dtype: torch.dtype  # int64 for tokens, else of the hidden states that enter
    taps: tuple[int, ...]
    rows: int
    nodes: int
    bucket: int
    first_row: int | None  # of consecutive rows, which attention reads without copying; None: gathered by number

    @classmethod
    def of(cls, x: Tensor, placement: Placement, plan: LayerPlan, taps: Sequence[int], bucket: int) -> RunKey:
        """The key of a run of ``x``, tokens [B, N] or hidden states [B, N, H]."""
        span = placement.span
        first_row = None if span is None else int(span.start)
        return cls(plan, x.dtype, tuple(sorted(set(taps))), x.shape[0], x.shape[1], bucket, first_row)


@dataclass(frozen=True)
class Same:
    """A tensor as part of a key: equal to itself alone, whatever it holds. Kept, so that no other takes its place."""

    tensor: Tensor | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.tensor is other.tensor

    def __hash__(self) -> int:
        return id(self.tensor)


@dataclass(frozen=True)
class LogitsKey:
    """Likewise of logits: [B, N, H] hidden states of a dtype, for a part of the vocabulary (a tensor by identity)."""

    rows: int
    nodes: int
    dtype: torch.dtype
    subset: Same

    @classmethod
    def of(cls, hidden: Tensor, subset: Tensor | None) -> LogitsKey:
        return cls(hidden.shape[0], hidden.shape[1], hidden.dtype, Same(subset))
