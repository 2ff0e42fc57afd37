"""Attention biases that grow with distance instead of rotary angles (ALiBi), from the model's own function."""

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
    scale: float

    def mask(self, placement: Placement, dtype: torch.dtype) -> Tensor:
        """[B, heads, N, extent] additive: bias where visible, the least number elsewhere."""
        extent = int(placement.extent)
        ones = torch.ones(1, extent, dtype=torch.long, device=placement.visible.device)
        table = self.build(ones, self.heads, dtype).view(self.heads, extent) * self.scale
        bias: Tensor = table[:, placement.key_positions].transpose(0, 1)[:, :, None]
        least = torch.finfo(dtype).min
        return bias.expand(-1, -1, placement.visible.shape[1], -1).masked_fill(~placement.visible[:, None], least)


def alibi_of(body: Any, config: Any) -> Alibi | None:
    """The ALiBi of a Bloom, or of a Falcon that uses it, whose scores it joins before they are scaled."""
    if not (getattr(body, "use_alibi", False) or config.model_type == "bloom"):
        return None
    build = sys.modules[type(body).__module__].build_alibi_tensor
    heads = config.num_attention_heads
    scale = 1.0 if config.model_type == "bloom" else 1 / math.sqrt(config.hidden_size // heads)
    return Alibi(build, heads, scale)
