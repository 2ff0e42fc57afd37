"""Rotary angles for fused blocks: looked up where they depend on the position alone, else asked of the model."""

from __future__ import annotations

import torch
from torch import Tensor

from ..cache import Placement
from .rotary import Rotary

_BLOCK = 1024  # positions added at a time
_JUMP = 16 * _BLOCK  # no text grows by so many at once: somebody asks about a far place


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
        self._table = (torch.empty(0), torch.empty(0))  # one pair, swapped at once: threads may share it

    def __call__(self, placement: Placement) -> tuple[Tensor, Tensor]:
        """cos and signed sin, both [R, heads, D], of the placed nodes, row after row; 1 and 0 for heads that stay."""
        positions = placement.positions.flatten()
        table = self._reaching(placement.last, positions.device) if self.rotary.by_position else None
        if table is None:
            cos, sin = (part.flatten(0, 1) for part in self._ask(placement))
        else:
            cos, sin = (part[positions] for part in table)
        return self._for_heads(cos, 1.0), self._for_heads(sin, 0.0)

    def _for_heads(self, numbers: Tensor, still: float) -> Tensor:
        """[R, heads, D] from [R, D]."""
        turning, staying = self.heads
        turned = numbers[:, None].expand(-1, turning, -1)
        return torch.cat([turned, numbers.new_full((len(numbers), staying, numbers.shape[-1]), still)], dim=1)

    def _reaching(self, last: int | None, device: torch.device) -> tuple[Tensor, Tensor] | None:
        """The table up to position ``last``; None where a far position alone would make it long for good."""
        table = self._table  # another thread may put a longer or shorter one there meanwhile
        needed = self.context if last is None else last + 1
        if needed > len(table[0]) + _JUMP:
            return None
        if needed > len(table[0]) or table[0].device != device:
            table = self._table = self._made(-(-needed // _BLOCK) * _BLOCK, device)
        return table

    def _made(self, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
        every = torch.arange(length, device=device)[None]
        unseen = torch.zeros_like(every)[..., None].bool()
        cos, sin = self._ask(Placement((0,), (0,), every, every, every + 1, unseen, every, length))
        return cos[0].contiguous(), sin[0].contiguous()

    def _ask(self, placement: Placement) -> tuple[Tensor, Tensor]:
        """cos and signed sin [B, N, D] from the model's own module."""
        like = torch.empty(0, dtype=self.dtype, device=placement.positions.device)
        cos, sin = self.rotary(like, placement)
        half = sin.shape[-1] // 2
        return cos, torch.cat([-sin[..., :half], sin[..., half:]], dim=-1)
