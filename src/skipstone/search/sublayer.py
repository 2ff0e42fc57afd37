"""Sublayers by name, and plans as sets of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

from ..plan import LayerPlan

_ROUNDING = 1e-9  # 50 * 0.58 is 28.999…


class Sublayer(NamedTuple):
    """The attention or MLP of a layer."""

    layer: int
    kind: Literal["attn", "mlp"]


def searchable(num_layers: int) -> list[Sublayer]:
    """All that a draft may leave out: those of every layer but the first and last (SWIFT)."""
    return [part for layer in range(1, num_layers - 1) for part in (Sublayer(layer, "attn"), Sublayer(layer, "mlp"))]


def count_at(num_layers: int, ratio: float) -> int:
    """How many of them a draft leaves out at ``ratio`` (SWIFT's r); 0 where the model is too shallow for one."""
    return int(len(searchable(num_layers)) * ratio + _ROUNDING)


def skipped_by(plan: LayerPlan) -> frozenset[Sublayer]:
    attn = (Sublayer(layer, "attn") for layer in plan.skip_attn)
    mlp = (Sublayer(layer, "mlp") for layer in plan.skip_mlp)
    return frozenset((*attn, *mlp))


def told_parts(plan: LayerPlan) -> str:
    """What a plan leaves out, for readers: "2 attention and 3 MLP sublayers"."""
    counts = {"attention": len(plan.skip_attn), "MLP": len(plan.skip_mlp)}
    named = " and ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    return f"{named or 'no'} sublayer{'s' * (sum(counts.values()) != 1)}"


def plan_without(num_layers: int, left_out: Collection[Sublayer]) -> LayerPlan:
    """The draft that leaves these out."""
    attn = (part.layer for part in left_out if part.kind == "attn")
    mlp = (part.layer for part in left_out if part.kind == "mlp")
    return LayerPlan.skipping(num_layers, attn, mlp)
