"""Attention biases that grow with distance instead of rotary angles (falcon's ALiBi), from the model's own function."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..cache import Placement


@dataclass(frozen=True)
class Alibi:
    """Adds slope x key position to attention scores; softmax makes distance of it."""

    build: Any  # the model module's build_alibi_tensor(attention_mask, heads, dtype)
    heads: int
    head_dim: int

    def mask(self, placement: Placement, dtype: torch.dtype) -> Tensor:
        """[B, heads, N, extent] additive: bias where visible, the least number elsewhere."""
        extent = int(placement.extent)
        ones = torch.ones(1, extent, dtype=torch.long, device=placement.visible.device)
        table = self.build(ones, self.heads, dtype).view(self.heads, extent) / math.sqrt(self.head_dim)
        bias: Tensor = table[:, placement.key_positions].transpose(0, 1)[:, :, None]
        least = torch.finfo(dtype).min
        return bias.expand(-1, -1, placement.visible.shape[1], -1).masked_fill(~placement.visible[:, None], least)


def alibi_of(body: Any, config: Any) -> Alibi | None:
    """The ALiBi of a falcon that uses it."""
    if not getattr(body, "use_alibi", False):
        return None
    build = sys.modules[type(body).__module__].build_alibi_tensor
    return Alibi(build, config.num_attention_heads, config.hidden_size // config.num_attention_heads)
