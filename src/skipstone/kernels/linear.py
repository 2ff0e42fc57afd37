"""Linear layers whose weights are laid out once for the kernel that reads them.

A decode step reads every weight once, so what counts is that the reading goes at the speed of memory, and that a few
nodes more cost little. PyTorch's own ``F.linear`` repacks its weights at every call with two or more rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional

WeightKind = Literal["stock", "float32", "float16", "bfloat16"]


class Linear(Protocol):
    """y = x Wᵀ + b."""

    def __call__(self, x: Tensor) -> Tensor:
        """[R, out] from x [R, in], of the dtype of x."""
        ...

    @property
    def fewest(self) -> int:
        """Calls of fewer rows are filled up to so many."""
        ...

    def weight(self) -> Tensor:
        """[out, in]: the numbers it computes with, unpacked anew where they are packed."""
        ...

    @property
    def bias(self) -> Tensor | None:
        """[out], if any."""
        ...


@dataclass(frozen=True)
class StockLinear:
    """PyTorch's own, over plain weights [out, in]."""

    plain: Tensor
    bias: Tensor | None = None
    fewest = 1

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.plain, self.bias)

    def weight(self) -> Tensor:
        return self.plain

    @classmethod
    def wide(cls, linear: Linear) -> StockLinear:
        """The same numbers in float64."""
        return cls(linear.weight().double(), None if linear.bias is None else linear.bias.double())


@dataclass(frozen=True)
class HalfLinear:
    """FBGEMM: weights stored as float16, activations and sums in float32."""

    packed: Any
    bias: Tensor | None
    product: Callable[..., Tensor]  # the operator, looked up once: it is called a hundred times a step
    fewest = 1

    def __call__(self, x: Tensor) -> Tensor:
        return self.product(x, self.packed)

    def __deepcopy__(self, memo: Any) -> HalfLinear:
        return self  # nothing in it changes

    def weight(self) -> Tensor:
        plain: Tensor = torch.ops.quantized.linear_unpack_fp16(self.packed)[0]
        return plain.float()


@dataclass(frozen=True)
class OneDNNLinear:
    """oneDNN: weights in blocks, as float32 or bfloat16; activations are taken to the weights' type.

    ``fewest``: on some CPUs one row has a kernel of its own, which rounds otherwise and is slower than that for four.
    """

    packed: Tensor
    bias: Tensor | None
    dtype: torch.dtype
    fewest: int
    product: Callable[..., Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        given = x if x.dtype == self.dtype else x.to(self.dtype)
        if rows < self.fewest:
            given = filled(given, self.fewest)
        y = self.product(given, self.packed, self.bias, "none", [], "")
        y = y if rows >= self.fewest else y[:rows]
        return y if y.dtype == x.dtype else y.to(x.dtype)

    def __deepcopy__(self, memo: Any) -> OneDNNLinear:
        return self  # nothing in it changes, and PyTorch cannot copy it

    def weight(self) -> Tensor:
        return self.packed.to_dense().float()


def filled(x: Tensor, rows: int) -> Tensor:
    """[rows, H]: x [R, H] followed by as many rows that nobody reads."""
    if len(x) >= rows:
        return x
    return x.expand(rows, -1) if len(x) == 1 else functional.pad(x, (0, 0, 0, rows - len(x)))  # expanding is a view


Pack = Callable[[Tensor, Tensor | None], Linear]  # weights [out, in] float32, bias [out] -> the layer


def half_linear(weight: Tensor, bias: Tensor | None) -> Linear:
    packed = torch.ops.quantized.linear_prepack_fp16(weight.float(), bias)
    return HalfLinear(packed, bias, _called(torch.ops.quantized.linear_dynamic_fp16.default))


def onednn_linear(weight: Tensor, bias: Tensor | None, dtype: torch.dtype, fewest: int) -> Linear:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.to(dtype).contiguous(), None)
    product = _called(torch.ops.mkldnn._linear_pointwise.default)
    return OneDNNLinear(packed, None if bias is None else bias.to(dtype), dtype, fewest, product)


def _called(operator: Any) -> Callable[..., Tensor]:
    """What an operator calls in the end: the checks before it cost as much as a small product."""
    direct: Callable[..., Tensor] = getattr(operator, "_op", operator)
    return direct


def survives_half(weight: Tensor) -> bool:
    """Whether float16 holds every number of ``weight`` exactly."""
    return torch.equal(weight.half().to(weight.dtype), weight)
