"""Which packed kernels this PyTorch and this CPU have, found out by running them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from .linear import Linear, Pack, StockLinear, WeightKind, half_linear, onednn_linear

# what a kernel may differ by from F.linear, relative to the largest result
_TOLERANCE = {"float16": 1e-5, "float32": 1e-5, "bfloat16": 3e-2}
_PADDED = 4  # rows at which oneDNN's kernels for several rows run at full speed


@dataclass(frozen=True)
class Kernel:
    """How to pack weights of one kind. ``reason`` says why it is PyTorch's own layer where another was wanted."""

    kind: WeightKind
    pack: Pack
    reason: str = ""


def kernel_for(kind: WeightKind) -> Kernel:
    """The kernel for weights of ``kind``, tried on small numbers first; PyTorch's own where it does not work."""
    if kind == "stock":
        return Kernel(kind, StockLinear)
    try:
        pack = half_linear if kind == "float16" else _onednn(kind)
        gap = _gap(pack, kind)
    except (RuntimeError, AttributeError, NotImplementedError) as error:  # what is not built in says so in many ways
        return Kernel("stock", StockLinear, str(error).strip().splitlines()[0][:200])
    if not gap <= _TOLERANCE[kind]:
        return Kernel("stock", StockLinear, f"its results are off by {gap:.1g}")
    return Kernel(kind, pack)


def _onednn(kind: WeightKind) -> Pack:
    dtype = torch.float32 if kind == "float32" else torch.bfloat16
    if not torch.backends.mkldnn.is_available():
        raise RuntimeError("this PyTorch has no oneDNN")
    if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        raise RuntimeError("this CPU has no bfloat16 kernels")
    alone = _rows_agree(partial(onednn_linear, dtype=dtype, fewest=1))
    return partial(onednn_linear, dtype=dtype, fewest=1 if alone else _PADDED)


def _numbers(*shape: int) -> Tensor:
    """The same numbers around 1 every time, without touching anyone's random numbers."""
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float64) * 1.618033988749895).sin().float().view(shape)


def _gap(pack: Pack, kind: WeightKind) -> float:
    weight, bias, x = _numbers(96, 256).half().float(), _numbers(96), _numbers(5, 256)
    layer = pack(weight, bias)
    if not _close(layer.weight(), weight, 0.01 if kind == "bfloat16" else 0.0):
        return float("inf")
    expected = functional.linear(x, weight, bias)
    return max(float((layer(x[:n]) - expected[:n]).abs().max() / expected.abs().max()) for n in (1, 5))


def _close(a: Tensor, b: Tensor, limit: float) -> bool:
    return float((a - b).abs().max()) <= limit


def _rows_agree(pack: Pack) -> bool:
    """Whether a row alone gives bit for bit what it gives among others, also where sums are long."""
    layer: Linear = pack(_numbers(576, 1536), None)
    x = _numbers(_PADDED, 1536)
    return torch.equal(layer(x[:1]), layer(x)[:1])
