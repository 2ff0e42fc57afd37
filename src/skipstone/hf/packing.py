"""Packed weights in the place of a model's own, a layer at a time: at no moment does the model lie in memory twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..kernels.linear import Linear, StockLinear, survives_half
from ..kernels.modules import PackedLinear, Table, emptied
from ..kernels.probe import Kernel
from .embedding import Embedding
from .fused import FusedNetwork
from .fusible import fused_blocks, joined
from .head import Head
from .network import HFNetwork


def packable(network: HFNetwork) -> Iterator[nn.Module]:
    """Every linear layer that packing takes, the head last."""
    for layer in network.layers:
        yield from (child for _, _, child in _linears(layer))
    if type(network.head.linear) is nn.Linear:
        yield network.head.linear


def all_survive_half(network: HFNetwork) -> bool:
    """Whether float16 holds every weight that packing takes; a look at a few of each first."""
    linears = list(packable(network))
    few = (_matrix(linear)[:2] for linear in linears)
    return all(map(survives_half, few)) and all(survives_half(_matrix(linear)) for linear in linears)


def largest_weight(network: HFNetwork) -> float:
    """The magnitude of the largest weight that packing takes."""
    ends = (torch.aminmax(_matrix(linear)) for linear in packable(network))
    return max((max(-float(least), float(most)) for least, most in ends), default=0.0)


def pack_modules(network: HFNetwork, kernel: Kernel) -> None:
    """Put packed layers into the model itself: its own blocks then run on them."""
    for layer in network.layers:
        for parent, name, child in list(_linears(layer)):
            setattr(parent, name, _packed(child, kernel))
    network.head, network.embedding = pack_ends(network, kernel)
    network.kernel = kernel


def fuse(network: HFNetwork, kernel: Kernel) -> FusedNetwork:
    """Fused blocks over packed weights; with stock kernels the model's own weights become views of the merged ones."""
    stock = kernel.kind == "stock"

    def merge(linears: Sequence[nn.Linear]) -> Linear:
        weight, bias = joined(linears)
        packed = kernel.pack(weight, bias)
        if stock:
            _share(linears, weight)
        else:
            for linear in linears:
                emptied(linear)
        return packed

    blocks = fused_blocks(network, merge)
    ends = (network.head, network.embedding) if stock else pack_ends(network, kernel)
    fused = FusedNetwork(network, blocks, ends)
    fused.kernel = kernel
    return fused


def fuse_lightly(network: HFNetwork) -> FusedNetwork:
    """The same blocks over the weights as they lie: slower, but nothing is moved. To see whether they are right."""
    return FusedNetwork(network, fused_blocks(network, _side_by_side), (network.head, network.embedding))


def pack_ends(network: HFNetwork, kernel: Kernel) -> tuple[Head, Embedding]:
    """Head and embedding on packed weights; a tied embedding keeps one copy whose rows can be read."""
    head, embedding = network.head, network.embedding
    linear, tokens = head.linear, embedding.tokens
    if type(linear) is not nn.Linear:
        return head, embedding
    tied = getattr(tokens, "weight", None) is linear.weight
    rows = linear.weight.data
    packed = _packed(linear, kernel, release=not tied)
    if tied and type(tokens) is nn.Embedding:
        table = Table(rows.half() if kernel.kind == "float16" else rows, network.dtype)
        emptied(tokens)
        return replace(head, linear=packed, table=table), replace(embedding, tokens=table)
    # an embedding of another class may scale what it gives: the head wants the rows as they lie
    return replace(head, linear=packed, table=Table(rows, network.dtype) if tied else None), embedding


def _packed(linear: Any, kernel: Kernel, release: bool = True) -> PackedLinear:
    weight = _matrix(linear)
    bias = None if linear.bias is None else linear.bias.data
    packed = PackedLinear(kernel.pack(weight, bias), weight.shape[1], weight.shape[0])
    if release:
        emptied(linear)
    return packed


def _linears(layer: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    """Plain linear layers anywhere in ``layer``, with where they hang."""
    for parent in layer.modules():
        for name, child in parent.named_children():
            if type(child) is nn.Linear or type(child).__name__ == "Conv1D":
                yield parent, name, child


def _matrix(linear: Any) -> Tensor:
    """Weights [out, in]; GPT-2's Conv1D has them the other way round."""
    weight: Tensor = linear.weight.data
    return weight if type(linear) is nn.Linear else weight.T


def _share(linears: Sequence[nn.Linear], weight: Tensor) -> None:
    start = 0
    for linear in linears:
        linear.weight.data = weight[start : start + linear.out_features]
        start += linear.out_features


class _Beside:
    """Several layers over the same input, each called by itself."""

    bias = None
    fewest = StockLinear.fewest

    def __init__(self, linears: Sequence[nn.Linear]) -> None:
        self._linears = [StockLinear(n.weight.data, None if n.bias is None else n.bias.data) for n in linears]

    def __call__(self, x: Tensor) -> Tensor:
        return torch.cat([linear(x) for linear in self._linears], dim=-1)

    def weight(self) -> Tensor:
        raise NotImplementedError("made to be tried, not to be kept")


def _side_by_side(linears: Sequence[nn.Linear]) -> Linear:
    return _Beside(linears)
