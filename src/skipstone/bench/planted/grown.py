"""A real model with more layers than it had, which change nothing: real text, and a best plan that is known."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn

from .idle import Sublayers, check_leak, check_serial, hidden_places, number_layers, reorder_config
from .model import PlantedModel, planted_skip


def grown_model(model: Any, added: int, *, seed: int = 0, leak: float = 0.0) -> PlantedModel:
    """Insert ``added`` idle layers, copies of the layers before them, at places hidden by ``seed``.

    ``model`` itself is changed; without a leak its logits are not. Raises UsageError for models unlike Llama.
    """
    check_leak(leak)
    check_serial(model)
    before = list(model.model.layers)
    places = hidden_places(len(before) + added, added, seed)
    sources = _sources(len(before) + added, places)
    model.model.layers = nn.ModuleList(
        _copied(before[source]) if place in places else before[source] for place, source in enumerate(sources)
    )
    reorder_config(model.config, sources)
    number_layers(model)
    return planted_skip(model, Sublayers.whole(places), leak)


def _copied(layer: Any) -> Any:
    """A layer of its own that shares the model's config, in which attentions look things up."""
    config = layer.self_attn.config
    return copy.deepcopy(layer, {id(config): config})


def _sources(count: int, places: frozenset[int]) -> list[int]:
    """For each place the old layer that stands there, or the one before it, which is copied."""
    sources: list[int] = []
    for place in range(count):
        busy = sources[-1] if sources else -1
        sources.append(busy if place in places else busy + 1)
    return sources
