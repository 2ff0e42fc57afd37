"""How one decoder block adds up its sublayers, as data: what a plan needs to leave attention or MLP out.

Submodule names are checkpoint keys and stable, so they are named (or searched for) here; nothing of a model is copied
or patched. One function runs every block there is; which of six shapes a layer has is read off its submodules. Whether
that was read right is not a matter of belief: parity with the model's own pass is checked at load.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ..errors import UnsupportedModel

Attend = Callable[[nn.Module, Tensor], Tensor]  # (attention module, its input [B, N, H]) -> attention output [B, N, H]
Part = Callable[[Tensor], Tensor]  # a norm, an MLP: [B, N, H] -> [B, N, H]


@dataclass(frozen=True)
class Wiring:
    """The shape of a block, by submodule names; None where the block has no such norm.

    serial: x += attn(norm(x)); x += mlp(norm(x)) · sandwich: norms behind the sublayers too · post: only behind ·
    parallel: both sublayers read x · scaled: a factor before each addition · after: the norm takes the sum (OPT-350m).
    """

    attn: str = "self_attn"
    mlp: str | None = "mlp"  # "a+b": the sum of two; None: OPT keeps the projections in the layer itself
    attn_norm: str | None = "input_layernorm"
    mlp_norm: str | None = "post_attention_layernorm"
    attn_post: str | None = None
    mlp_post: str | None = None
    parallel: bool = False  # the MLP reads what the attention read, before it was added
    after: bool = False  # norms take the sum of residual and sublayer


@dataclass(frozen=True)
class Block:
    """One decoder layer taken apart."""

    attn: Any
    mlp: Part
    attn_norm: Part | None
    mlp_norm: Part | None
    attn_post: Part | None
    mlp_post: Part | None
    parallel: bool
    after: bool
    scale: float
    output: Tensor | None  # gemma4: what leaves the layer is multiplied by it

    def __call__(self, x: Tensor, attn: bool, mlp: bool, attend: Attend) -> Tensor:
        """x [B, N, H] through the sublayers that run; one that does not drops its norms too."""
        if not (attn or mlp):
            return x
        x = (self._parallel if self.parallel else self._serial)(x, attn, mlp, attend)
        return x if self.output is None else x * self.output

    def _serial(self, x: Tensor, attn: bool, mlp: bool, attend: Attend) -> Tensor:
        if attn:
            x = self._add(x, attend(self.attn, self._before(x, self.attn_norm)), self.attn_norm, self.attn_post)
        if mlp:
            x = self._add(x, self.mlp(self._before(x, self.mlp_norm)), self.mlp_norm, self.mlp_post)
        return x

    def _parallel(self, x: Tensor, attn: bool, mlp: bool, attend: Attend) -> Tensor:
        result = x
        if attn:
            result = result + attend(self.attn, self._before(x, self.attn_norm))
        if mlp:
            result = result + self.mlp(self._before(x, self.mlp_norm))
        return result

    def _before(self, x: Tensor, norm: Part | None) -> Tensor:
        return x if norm is None or self.after else norm(x)

    def _add(self, x: Tensor, y: Tensor, norm: Part | None, post: Part | None) -> Tensor:
        y = y if post is None else post(y)
        x = x + (y if self.scale == 1 else y * self.scale)
        return norm(x) if self.after and norm is not None else x


def take_apart(layer: Any, wiring: Wiring) -> Block:
    """Raises UnsupportedModel where the layer lacks a part the wiring names."""
    return Block(
        attn=_part(layer, wiring.attn),
        mlp=_mlp(layer, wiring.mlp) if wiring.mlp is not None else _opt_mlp(layer),
        attn_norm=_optional(layer, wiring.attn_norm),
        mlp_norm=_optional(layer, wiring.mlp_norm),
        attn_post=_optional(layer, wiring.attn_post),
        mlp_post=_optional(layer, wiring.mlp_post),
        parallel=wiring.parallel,
        after=wiring.after,
        scale=float(getattr(layer, "residual_multiplier", getattr(layer, "residual_scale", 1.0))),
        output=getattr(layer, "layer_scalar", None),
    )


def _part(layer: Any, name: str) -> Any:
    part = getattr(layer, name, None)
    if part is None:
        raise UnsupportedModel(f"a {type(layer).__name__} has no {name}: its wiring is not known")
    return part


def _optional(layer: Any, name: str | None) -> Part | None:
    return None if name is None else _part(layer, name)


def _mlp(layer: Any, names: str) -> Part:
    """One module, or the sum of two (experts and what all tokens share), of which a layer may lack one."""
    first, *others = [
        _one_mlp(getattr(layer, name)) for name in names.split("+") if getattr(layer, name, None) is not None
    ]
    if not others:
        return first
    return lambda x: first(x) + others[0](x)


def _one_mlp(mlp: Any) -> Part:
    """Mixtures of experts may return what their router thought as well; Bloom's adds the residual itself, here 0."""
    takes_residual = "residual" in inspect.signature(mlp.forward).parameters

    def run(x: Tensor) -> Tensor:
        output = mlp(x, 0) if takes_residual else mlp(x)
        result: Tensor = output[0] if isinstance(output, tuple) else output
        return result

    return run


def _opt_mlp(layer: Any) -> Part:
    return lambda x: layer.fc2(layer.activation_fn(layer.fc1(x)))
