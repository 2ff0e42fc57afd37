"""Sublayers that do nothing: silencing them, hiding them, and moving them about."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...errors import UsageError

_ATTN, _MLP = ("input_layernorm", "self_attn"), ("post_attention_layernorm", "mlp")
_NORMS = frozenset((_ATTN[0], _MLP[0]))
_PER_LAYER = ("layer_types", "no_rope_layers")  # lists in a config, one entry a layer


@dataclass(frozen=True)
class Sublayers:
    """Layers whose attention, and layers whose MLP."""

    attn: frozenset[int]
    mlp: frozenset[int]

    @classmethod
    def whole(cls, layers: Iterable[int]) -> Sublayers:
        chosen = frozenset(layers)
        return cls(chosen, chosen)


def hidden_places(layers: int, count: int, seed: int) -> frozenset[int]:
    """``count`` of the layers, drawn by ``seed``; never the first or last, which searchers leave alone, too."""
    if not 1 <= count <= layers - 2:
        raise UsageError(
            f"{count} idle of {layers} layers cannot be hidden: the first and last stay busy, so use 1 to {layers - 2}"
        )
    return frozenset(random.Random(seed).sample(range(1, layers - 1), count))


def check_leak(leak: float) -> None:
    if not 0 <= leak < 1:
        raise UsageError(f"leak={leak} is out of range: use 0 (idle layers do nothing) or a number below 1")


def check_serial(model: Any) -> None:
    """Raise UsageError unless the layers add up their sublayers as Llama's do, so that silencing one is to skip it."""
    layers = getattr(getattr(model, "model", None), "layers", ())
    if not len(layers) or not all(_is_serial(layer) for layer in layers):
        raise UsageError(f"{type(model).__name__} cannot be planted: its layers are not like Llama's; use such a model")


def _is_serial(layer: Any) -> bool:
    parts = dict(layer.named_children())
    norms = {name for name in parts if "norm" in name}
    last = [getattr(parts.get("self_attn"), "o_proj", None), getattr(parts.get("mlp"), "down_proj", None)]
    return norms == _NORMS and None not in last


def last_matrices(model: Any, idle: Sublayers) -> list[Any]:
    """The linear layers through which idle sublayers add to the residual stream."""
    layers = model.model.layers
    attn = [layers[index].self_attn.o_proj for index in sorted(idle.attn)]
    return attn + [layers[index].mlp.down_proj for index in sorted(idle.mlp)]


@torch.no_grad()
def silence(model: Any, idle: Sublayers, leak: float = 0.0) -> None:
    """Weaken what idle sublayers add to ``leak`` of it, in numbers that float16 holds."""
    for linear in last_matrices(model, idle):
        for parameter in linear.parameters():
            parameter.copy_((parameter * leak).half())


def put_in_order(model: Any, idle: Sublayers, there: Sublayers) -> None:
    """Move idle sublayers, with their norms, from ``idle`` to ``there``; the busy ones keep their order.

    Whole layers are moved whole. Raises UsageError for single sublayers of layers that differ in kind.
    """
    layers = list(model.model.layers)
    attn, mlp = _order(len(layers), idle.attn, there.attn), _order(len(layers), idle.mlp, there.mlp)
    if idle.attn == idle.mlp and there.attn == there.mlp:
        model.model.layers = nn.ModuleList(layers[source] for source in attn)
        reorder_config(model.config, attn)
    else:
        _check_alike(model.config)
        _arrange(layers, _ATTN, attn)
        _arrange(layers, _MLP, mlp)
    number_layers(model)


def _check_alike(config: Any) -> None:
    for name in _PER_LAYER:
        kinds = set(getattr(config, name, None) or ())
        if len(kinds) > 1:
            raise UsageError(
                f"attentions and MLPs cannot be moved apart where layers differ ({name}: "
                f"{', '.join(sorted(map(str, kinds)))}): move whole layers, or use a model whose layers are alike"
            )


def _order(count: int, idle: frozenset[int], there: frozenset[int]) -> list[int]:
    """For each place, the place its sublayer comes from."""
    busy, still = iter([n for n in range(count) if n not in idle]), iter(sorted(idle))
    return [next(still) if place in there else next(busy) for place in range(count)]


def _arrange(layers: Sequence[Any], names: Sequence[str], order: Sequence[int]) -> None:
    for name in names:
        parts = [getattr(layer, name) for layer in layers]
        for layer, source in zip(layers, order, strict=True):
            setattr(layer, name, parts[source])


def number_layers(model: Any) -> None:
    """Tell attentions and MLPs their places anew: caches are kept by them."""
    for index, layer in enumerate(model.model.layers):
        for module in (layer, *layer.children()):
            if hasattr(module, "layer_idx"):
                module.layer_idx = index


def reorder_config(config: Any, sources: Sequence[int]) -> None:
    """Make ``config`` that of the layers ``sources`` of before."""
    for name in _PER_LAYER:
        kept = getattr(config, name, None)
        if isinstance(kept, list) and kept:
            setattr(config, name, [kept[source] for source in sources])
    config.num_hidden_layers = len(sources)
