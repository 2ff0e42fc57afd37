"""One call of a model's own attention module over our cache."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ..cache import KVCache, Placement
from .rotary import Angles


@dataclass(frozen=True)
class CacheView:
    """What an attention module takes for its cache: writes the new keys and values, hands back all it may read."""

    cache: KVCache
    placement: Placement

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        return self.cache.write(layer, self.placement, keys, values)


def cache_keyword(attention: nn.Module) -> str:
    """The name under which ``attention`` takes its cache: transformers 5 renamed ``past_key_values`` to ``cache``."""
    names = inspect.signature(attention.forward).parameters
    return "cache" if "cache" in names else "past_key_values"


@dataclass(frozen=True)
class AttentionCall:
    """Everything the attentions of one run share; called with each module and its input [B, N, H]."""

    view: CacheView
    angles: Angles
    masks: dict[int | None, Tensor | None]  # by window, see ``masks_for``
    windows: list[int | None]
    keyword: str

    def __call__(self, attention: Any, x: Tensor) -> Tensor:
        output, _ = attention(
            hidden_states=x,
            position_embeddings=self.angles,
            attention_mask=self.masks[self.windows[attention.layer_idx]],
            **{self.keyword: self.view},
        )
        return output  # type: ignore[no-any-return]


def masks_for(placement: Placement, windows: list[int | None]) -> dict[int | None, Tensor | None]:
    """[B, 1, N, extent] bool for each window in use: who sees whom. None where the only node of a row sees all."""
    return {window: _mask(placement, window) for window in set(windows)}


def _mask(placement: Placement, window: int | None) -> Tensor | None:
    if window is not None and window >= placement.extent:
        window = None  # nothing is that far apart
    if window is None and placement.unmasked:
        return None
    visible = placement.visible
    if window is not None:
        visible = visible & (placement.positions[..., None] - placement.key_positions[:, None] < window)
    return visible[:, None]
