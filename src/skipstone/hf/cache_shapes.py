"""What each layer of a model without weights would cache: its attention, called on the meta device."""

from __future__ import annotations

from typing import Any

import torch

from ..cache import LayerShape
from .attention import AttentionCall, ShapeProbe, attention_arguments
from .body import body_of
from .rotary import Rotary, rotaries_of
from .windows import layer_kinds
from .wiring import Wiring


def cache_shapes(model: Any, wiring: Wiring) -> list[LayerShape]:
    """Keys and values of every layer for one token; empty where an attention cannot be called without numbers."""
    try:
        with torch.device("meta"), torch.inference_mode():
            return _probe(model, wiring)
    except Exception:
        return []


def _probe(model: Any, wiring: Wiring) -> list[LayerShape]:
    config = model.config.get_text_config()
    body, layers = body_of(model)
    kinds = layer_kinds(config, len(layers))
    x = torch.zeros(1, 1, config.hidden_size, dtype=model.dtype)
    zero = torch.zeros(1, 1, dtype=torch.long)
    angles = {kind: _angles(r, x, zero) for kind, r in rotaries_of(body, config, kinds).items()}
    attentions = [getattr(layer, wiring.attn) for layer in layers]
    probe = ShapeProbe()
    nothing: Any = [None] * len(layers)
    attend = AttentionCall(
        probe, attention_arguments(attentions[0]), kinds, nothing, angles, {None: None}, zero, x.new_zeros(1, 1, 1)
    )
    for attention in attentions:
        attend(attention, x)
    return [probe.shapes[number] for number in range(len(layers))]


def _angles(rotary: Rotary | None, x: torch.Tensor, positions: torch.Tensor) -> Any:
    """Of the right shape; some versions cannot compute them on the meta device."""
    if rotary is None:
        return None
    try:
        return rotary.module(x, positions, **rotary.more)
    except RuntimeError:
        return (x.new_zeros(1, 1, 2 * rotary.module.inv_freq.shape[-1]),) * 2
