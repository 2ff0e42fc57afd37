"""Which exit layers a model was trained for, as its settings record it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapters import Adapter


def trained_exits(config: Mapping[str, Any]) -> list[int]:
    """Exit layers that training recorded in config.json (``skipstone_exits``); none in most models."""
    recorded = config.get("skipstone_exits")
    if not isinstance(recorded, list):
        return []
    return sorted({layer for layer in recorded if isinstance(layer, int) and not isinstance(layer, bool) and layer > 0})


def _within(exits: list[int], layers: object) -> list[int]:
    """Those that the model has, where it says how many layers it has."""
    return [layer for layer in exits if layer < layers] if isinstance(layers, int) else exits


def exits_of(folder: Path, config: Mapping[str, Any], adapters: Sequence[Adapter]) -> list[int]:
    """Those of the model in ``folder`` with adapters merged into it: the last one that was trained for exits decides.

    facebook's LayerSkip checkpoints record nothing, as their config.json is that of any Llama: they are told by the
    name of their folder, which is their hub id in the cache of the hub.
    """
    layers = config.get("num_hidden_layers")
    found = next((list(adapter.exits) for adapter in reversed(adapters) if adapter.exits), trained_exits(config))
    recorded = _within(found, layers)
    if recorded or not isinstance(layers, int) or not is_layerskip(folder.as_posix()):
        return recorded
    return list(range(1, layers))


def is_layerskip(name: str) -> bool:
    """Whether a hub id, or a folder of that name, is one of facebook's LayerSkip checkpoints.

    They were trained with the rotational curriculum, in which every layer has its turn (arXiv 2404.16710, section 4.1).
    """
    return re.search(rf"(^|/|--)layerskip-({'|'.join(map(re.escape, _PUBLISHED))})(/|$)", name) is not None


_PUBLISHED = ("llama2-7B", "llama2-13B", "llama2-70B", "codellama-7B", "codellama-34B", "llama3-8B", "llama3.2-1B")
