"""Packed layers in the place of a model's own modules. A copy of one is plain again: that is how it is widened."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .linear import Linear


class PackedLinear(nn.Module):
    """Stands for an ``nn.Linear``: any leading dimensions. ``weight`` is unpacked anew each time it is read."""

    def __init__(self, linear: Linear, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = linear
        self.in_features = in_features
        self.out_features = out_features

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.reshape(-1, self.in_features)).view(*x.shape[:-1], self.out_features)

    @property
    def weight(self) -> Tensor:
        return self.linear.weight()

    @property
    def bias(self) -> Tensor | None:
        return self.linear.bias

    def __deepcopy__(self, memo: Any) -> nn.Linear:
        with torch.device("meta"):
            plain = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None)
        plain.weight = nn.Parameter(self.weight.clone(), requires_grad=False)
        if self.bias is not None:
            plain.bias = nn.Parameter(self.bias.float().clone(), requires_grad=False)
        return plain


class Table(nn.Module):
    """Stands for an ``nn.Embedding``: rows stored in their own number type, read in ``dtype``."""

    def __init__(self, rows: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.rows = nn.Buffer(rows, persistent=False)
        self.dtype = dtype

    def forward(self, tokens: Tensor) -> Tensor:
        return functional.embedding(tokens, self.rows).to(self.dtype)

    def __deepcopy__(self, memo: Any) -> nn.Embedding:
        plain: nn.Embedding = nn.Embedding.from_pretrained(self.rows.to(self.dtype, copy=True))
        return plain


def emptied(module: nn.Module) -> None:
    """Let go of the numbers a packed layer now holds."""
    for parameter in module.parameters(recurse=False):
        parameter.data = parameter.data.new_empty(0)
