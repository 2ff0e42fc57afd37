"""One block of a serial family with little between its matrix products: x += attn(norm(x)); x += mlp(norm(x)).

Weights are merged (q, k and v; gate and up), rotary and attention are our own, and hidden states are [R, H], the nodes
of all rows after each other, since packed kernels want matrices; and matrices of a few rows at least, so the nodes may
be followed by rows that nobody reads. Attention leaves these out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from ..cache import Write
from ..kernels.linear import Linear, StockLinear, filled
from .norms import Norm


@dataclass(frozen=True)
class Shape:
    """Heads of one attention: ``heads`` query heads share ``kv_heads`` keys and values of ``dim`` numbers."""

    heads: int
    kv_heads: int
    dim: int

    @property
    def shared(self) -> bool:
        return self.heads > self.kv_heads


@dataclass(frozen=True)
class Sight:
    """What the attentions of one run share: ``size`` is (B, N)."""

    size: tuple[int, int]
    write: Write
    angles: dict[str, tuple[Tensor, Tensor]]  # by kind of layer: AngleTable's as [B, N, heads, D]
    masks: dict[int | None, Tensor | None]  # by window, to be added: [B, 1, N, extent]


@dataclass(frozen=True)
class FusedAttention:
    """``kind`` names its angles; None where the layer sees no positions."""

    layer: int
    norm: Norm
    qkv: Linear
    out: Linear
    q_norm: Norm | None
    k_norm: Norm | None
    shape: Shape
    scale: float
    window: int | None
    kind: str | None

    def __call__(self, x: Tensor, sight: Sight) -> Tensor:
        """[R, H] from x [R, H], of which the first B · N rows are nodes."""
        shape, (rows, nodes) = self.shape, sight.size
        qkv = self.qkv(self.norm(x))
        if len(x) > rows * nodes:
            qkv = qkv.narrow(0, 0, rows * nodes)
        qkv = self._normed(qkv.view(rows, nodes, -1, shape.dim))
        if self.kind is not None:
            cos, sin = sight.angles[self.kind]
            qkv = torch.addcmul(qkv * cos, qkv.roll(shape.dim // 2, -1), sin)
        q, both = qkv.transpose(1, 2).split_with_sizes([shape.heads, 2 * shape.kv_heads], 1)
        keys, values = sight.write(self.layer, both)
        y = functional.scaled_dot_product_attention(
            q, keys, values, sight.masks[self.window], scale=self.scale, enable_gqa=shape.shared
        )
        return self.out(filled(y.transpose(1, 2).reshape(rows * nodes, -1), len(x)))

    def in_float64(self) -> FusedAttention:
        q_norm, k_norm = (norm and norm.in_float64() for norm in (self.q_norm, self.k_norm))
        wide = replace(
            self, qkv=StockLinear.wide(self.qkv), out=StockLinear.wide(self.out), norm=self.norm.in_float64()
        )
        return replace(wide, q_norm=q_norm, k_norm=k_norm)

    def _normed(self, qkv: Tensor) -> Tensor:
        """[B, N, heads + 2 * KV, D] with norms on queries and keys where the model has them."""
        if self.q_norm is None or self.k_norm is None:
            return qkv
        q, k, v = qkv.split([self.shape.heads, self.shape.kv_heads, self.shape.kv_heads], dim=2)
        return torch.cat([self.q_norm(q), self.k_norm(k), v], dim=2)


@dataclass(frozen=True)
class FusedMlp:
    """down(act(gate(x)) * up(x))."""

    norm: Norm
    gate_up: Linear
    down: Linear
    act: Callable[[Tensor], Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(self.norm(x)).chunk(2, dim=-1)
        return self.down(self.act(gate).mul_(up))

    def in_float64(self) -> FusedMlp:
        return replace(
            self, norm=self.norm.in_float64(), gate_up=StockLinear.wide(self.gate_up), down=StockLinear.wide(self.down)
        )


@dataclass(frozen=True)
class FusedBlock:
    """``scale`` multiplies what a sublayer adds."""

    attn: FusedAttention
    mlp: FusedMlp
    scale: float

    def __call__(self, x: Tensor, attn: bool, mlp: bool, sight: Sight) -> Tensor:
        """x [R, H] through the sublayers that run."""
        if attn:
            x = self._add(x, self.attn(x, sight))
        return self._add(x, self.mlp(x)) if mlp else x

    def _add(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y if self.scale == 1 else torch.add(x, y, alpha=self.scale)

    def in_float64(self) -> FusedBlock:
        return replace(self, attn=self.attn.in_float64(), mlp=self.mlp.in_float64())
