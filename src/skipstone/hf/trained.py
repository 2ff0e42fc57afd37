"""Which exit layers a model was trained for, as its settings record it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapters import Adapter


def trained_exits(config: Mapping[str, Any]) -> list[int]:
    """Exit layers that training recorded in config.json (``skipstone_exits``); none in most models.

    facebook's LayerSkip checkpoints record nothing: their config.json is that of any Llama.
    """
    recorded = config.get("skipstone_exits")
    if not isinstance(recorded, list):
        return []
    return sorted({layer for layer in recorded if isinstance(layer, int) and not isinstance(layer, bool) and layer > 0})


def exits_of(config: Mapping[str, Any], adapters: Sequence[Adapter]) -> list[int]:
    """Those of a model with adapters merged into it: the last one that was trained for exits decides."""
    return next((list(adapter.exits) for adapter in reversed(adapters) if adapter.exits), trained_exits(config))
