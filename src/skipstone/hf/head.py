"""From the residual stream to logits: final norm, LM head, and what a model does to its logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import UnsupportedModel
from ..kernels.modules import PackedLinear
from ..kernels.probe import Kernel
from .widen import widened

_NORMS = ("norm", "ln_f", "final_layer_norm", "final_layernorm", "layer_norm")


@dataclass(frozen=True)
class Head:
    """``finish`` is applied to logits; None where they stay as they are.

    ``table`` gives rows of the linear's weights by token id, where these are packed.
    """

    norm: Any
    project: Any
    linear: Any
    finish: Callable[[Tensor], Tensor] | None
    table: Any = None

    def __call__(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
        """[B, N, V], or [B, N, S] for token ids ``subset`` [S], from hidden [B, N, H]."""
        if self.norm is not None:
            hidden = self.norm(hidden)
        if self.project is not None:
            hidden = self.project(hidden)
        logits = self.linear(hidden) if subset is None else self._rows(hidden, subset)
        return logits if self.finish is None else self.finish(logits)

    def narrowed(self, tokens: Tensor, kernel: Kernel) -> Head:
        """The head for ``tokens`` [S] alone, packed."""
        weight, bias = self._part(tokens)
        packed = PackedLinear(kernel.pack(weight, bias), weight.shape[1], weight.shape[0])
        return replace(self, linear=packed, table=None)

    def _rows(self, hidden: Tensor, subset: Tensor) -> Tensor:
        return torch.nn.functional.linear(hidden, *self._part(subset))

    def _part(self, subset: Tensor) -> tuple[Tensor, Tensor | None]:
        """Weights [S, H] and bias [S] of some tokens."""
        bias = getattr(self.linear, "bias", None)
        rows = self.linear.weight[subset] if self.table is None else self.table(subset)
        return rows, None if bias is None else bias[subset]

    def in_float64(self) -> Head:
        return replace(self, **{name: widened(getattr(self, name)) for name in ("norm", "project", "linear", "table")})


def head_of(model: Any, body: Any, config: Any, finish: bool = True) -> Head:
    """Raises UnsupportedModel where the model has no LM head. Without ``finish`` logits stay what its linear gives."""
    linear = model.get_output_embeddings()
    if linear is None:
        raise UnsupportedModel(f"{type(model).__name__} has no LM head: it cannot generate text")
    norm = next((getattr(body, name) for name in _NORMS if getattr(body, name, None) is not None), None)
    return Head(norm, getattr(body, "project_out", None), linear, _finish(config) if finish else None)


def _finish(config: Any) -> Callable[[Tensor], Tensor] | None:
    """Scales and soft caps, by the names configs give them."""
    cap = getattr(config, "final_logit_softcapping", None)
    if cap is not None:
        return lambda logits: torch.tanh(logits / cap) * cap
    factor = getattr(config, "logit_scale", None)
    if factor is not None:
        return lambda logits: logits * factor
    scaling = getattr(config, "logits_scaling", None)
    if scaling is None:
        return None
    if config.model_type == "hyperclovax":  # granite divides, its relative multiplies
        return lambda logits: logits * scaling
    return lambda logits: logits / scaling
