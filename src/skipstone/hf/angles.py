"""Rotary angles for fused blocks: looked up where they depend on the position alone, else asked of the model."""

from __future__ import annotations

import torch
from torch import Tensor

from ..cache import Placement
from .rotary import Rotary

_BLOCK = 1024  # positions added at a time


class AngleTable:
    """cos and sin [P, D] of one rotary embedding, for as many positions as were asked for so far.

    ``heads``: how many heads of a layer turn (queries and keys), and how many do not (values). The sine has the sign of
    ``rotate_half`` in it: x·cos + roll(x, D/2)·sin is the rotated x.
    """

    def __init__(self, rotary: Rotary, heads: tuple[int, int], dtype: torch.dtype, context: int) -> None:
        self.rotary = rotary
        self.heads = heads
        self.dtype = dtype
        self.context = context
        self._cos = self._sin = torch.empty(0)

    def __call__(self, placement: Placement) -> tuple[Tensor, Tensor]:
        """cos and signed sin, both [R, heads, D], of the placed nodes, row after row; 1 and 0 for heads that stay."""
        if not self.rotary.by_position:
            cos, sin = self._ask(placement)
            return self._for_heads(cos.flatten(0, 1), 1.0), self._for_heads(sin.flatten(0, 1), 0.0)
        positions = placement.positions.flatten()
        self._reach(positions)
        return self._for_heads(self._cos[positions], 1.0), self._for_heads(self._sin[positions], 0.0)

    def _for_heads(self, numbers: Tensor, still: float) -> Tensor:
        """[R, heads, D] from [R, D]."""
        turning, staying = self.heads
        turned = numbers[:, None].expand(-1, turning, -1)
        return torch.cat([turned, numbers.new_full((len(numbers), staying, numbers.shape[-1]), still)], dim=1)

    def _reach(self, positions: Tensor) -> None:
        """Make the table long enough; on a GPU, where looking would wait for it, as long as it can ever be."""
        needed = int(positions.max()) + 1 if positions.device.type == "cpu" else self.context
        if needed > len(self._cos) or self._cos.device != positions.device:
            length = -(-needed // _BLOCK) * _BLOCK
            every = torch.arange(length, device=positions.device)[None]
            zeros = torch.zeros_like(every)
            whole = Placement((0,), (0,), every, every, every + 1, zeros[..., None].bool(), every, length)
            cos, sin = self._ask(whole)
            self._cos, self._sin = cos[0].contiguous(), sin[0].contiguous()

    def _ask(self, placement: Placement) -> tuple[Tensor, Tensor]:
        """cos and signed sin [B, N, D] from the model's own module."""
        like = torch.empty(0, dtype=self.dtype, device=placement.positions.device)
        cos, sin = self.rotary(like, placement)
        half = sin.shape[-1] // 2
        return cos, torch.cat([-sin[..., :half], sin[..., half:]], dim=-1)
