"""One call of a model's own attention module over our cache."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ..cache import KVCache, LayerShape, Placement
from ..errors import UnsupportedModel
from .rotary import Angles

_OURS = ("position_embeddings", "attention_mask", "position_ids", "alibi", "residual")
_CACHE_NAMES = ("cache", "past_key_values", "past_key_value", "layer_past")


class View(Protocol):
    """What an attention module takes for its cache."""

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class CacheView:
    """Writes the new keys and values, hands back all that may be read."""

    cache: KVCache
    placement: Placement

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        return self.cache.write(layer, self.placement, keys, values)


@dataclass
class ShapeProbe:
    """Keeps nothing but the shapes of keys and values: what a cache of this model must hold."""

    shapes: dict[int, LayerShape] = field(default_factory=dict)

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        self.shapes[layer] = LayerShape(keys.shape[1], keys.shape[-1], values.shape[-1])
        return keys, values


def cache_keyword(module: nn.Module) -> str | None:
    """The name under which a model or an attention takes its cache: transformers 5 renamed it to ``cache``."""
    names = inspect.signature(module.forward).parameters
    return next((name for name in _CACHE_NAMES if name in names), None)


def attention_arguments(attention: nn.Module) -> dict[str, str]:
    """Under which names ``attention`` takes what we have: their names by ours. Signatures change between versions.

    Raises UnsupportedModel where it takes no cache.
    """
    names = inspect.signature(attention.forward).parameters
    found = {ours: ours for ours in _OURS if ours in names}
    shared = names.get("shared_kv_states")
    if shared is not None and shared.default is inspect.Parameter.empty:
        found["shared_kv_states"] = "shared_kv_states"
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in names.values()):
        found["position_ids"] = "position_ids"  # some look for it there
    cache = cache_keyword(attention)
    if cache is None:
        raise UnsupportedModel(f"{type(attention).__name__} takes no cache of keys and values: it cannot be resumed")
    return found | {"cache": cache}


@dataclass(frozen=True)
class AttentionCall:
    """Everything the attentions of one run share; called with each module and its input [B, N, H]."""

    view: View
    arguments: Mapping[str, str]
    kinds: list[str]
    windows: list[int | None]
    angles: Mapping[str, Angles | None]  # by kind of layer
    masks: Mapping[int | None, Tensor | None]  # by window, see ``masks_for``
    positions: Tensor
    alibi: Tensor | None = None  # only says that there is one: its bias is in the masks

    def __call__(self, attention: Any, x: Tensor) -> Tensor:
        layer = attention.layer_idx
        have: dict[str, Any] = {
            "position_embeddings": self.angles[self.kinds[layer]],
            "attention_mask": self.masks[self.windows[layer]],
            "position_ids": self.positions,
            "cache": self.view,
            "alibi": self.alibi,
            "shared_kv_states": {},  # gemma4 puts keys there for layers that have none; we run it where all have
            "residual": 0,  # Bloom's adds it; our blocks do
        }
        output = attention(x, **{theirs: have[ours] for ours, theirs in self.arguments.items()})
        attended: Tensor = output[0] if isinstance(output, tuple) else output
        return attended


def masks_for(placement: Placement, windows: list[int | None]) -> dict[int | None, Tensor | None]:
    """[B, 1, N, extent] bool for each window in use: who sees whom. None where the only node of a row sees all."""
    return {window: _mask(placement, window) for window in set(windows)}


def additive(masks: Mapping[int | None, Tensor | None], dtype: torch.dtype) -> dict[int | None, Tensor | None]:
    """The same masks as numbers to add to scores, which attention without SDPA expects."""
    least = torch.finfo(dtype).min
    return {
        window: None if mask is None else mask.new_zeros(mask.shape, dtype=dtype).masked_fill(~mask, least)
        for window, mask in masks.items()
    }


def _mask(placement: Placement, window: int | None) -> Tensor | None:
    if window is not None and window >= placement.extent:
        window = None  # nothing is that far apart
    if window is None and placement.unmasked:
        return None
    visible = placement.visible
    if window is not None:
        visible = visible & (placement.positions[..., None] - placement.key_positions[:, None] < window)
    return visible[:, None]
