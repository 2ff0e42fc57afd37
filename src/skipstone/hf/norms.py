"""RMSNorm for fused blocks, in the form that is fastest where it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional


class Norm(Protocol):
    """x / sqrt(mean(x²) + eps) · weight over the last dimension."""

    def __call__(self, x: Tensor) -> Tensor: ...

    def in_float64(self) -> Norm: ...


@dataclass(frozen=True)
class RmsNorm:
    """PyTorch's own, which is one kernel on a GPU and seven on a CPU."""

    weight: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)

    def in_float64(self) -> Norm:
        return replace(self, weight=self.weight.double())


@dataclass(frozen=True)
class LengthNorm:
    """The same by vector length, four kernels: x · (weight · √H) / hypot(|x|, √(H · eps))."""

    scaled: Tensor  # weight · √H
    floor: Tensor  # √(H · eps)

    @classmethod
    def of(cls, weight: Tensor, eps: float) -> LengthNorm:
        size = weight.numel()
        return cls(weight * size**0.5, torch.tensor((size * eps) ** 0.5, dtype=weight.dtype))

    def __call__(self, x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, 2, (-1,), True)
        return torch.mul(x, self.scaled).div_(length.hypot_(self.floor))

    def in_float64(self) -> Norm:
        return LengthNorm(self.scaled.double(), self.floor.double())


def norm_of(weight: Tensor, eps: float) -> Norm:
    """Half precisions need PyTorch's own, which sums in float32."""
    exact = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64)
    return LengthNorm.of(weight, eps) if exact else RmsNorm(weight, eps)
