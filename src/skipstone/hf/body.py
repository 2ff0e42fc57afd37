"""The decoder inside a transformers model, and whether layer plans can run it at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from ..errors import UnsupportedModel
from .windows import layer_kinds

_ATTENTIONS = ("sdpa", "eager")


def check_supported(model: Any, config: Any) -> None:
    """Raise UnsupportedModel, with the reason, for what cannot be decoded with layer plans."""
    check_architecture(model, config)
    if getattr(config, "_attn_implementation", "sdpa") not in _ATTENTIONS:
        raise UnsupportedModel(
            f'attention "{config._attn_implementation}" takes no mask for drafted trees: load the model with '
            'attn_implementation="sdpa"'
        )


def check_architecture(model: Any, config: Any) -> None:
    """Raise UnsupportedModel, with the reason, for what no way of running it would make work."""
    kind = f'model type "{config.model_type}"'
    if getattr(model.config, "is_encoder_decoder", False):
        raise UnsupportedModel(f"{kind} is an encoder-decoder: use a decoder-only model")
    if model.get_output_embeddings() is None:
        raise UnsupportedModel(f"{type(model).__name__} has no LM head: it cannot generate text")
    kinds = layer_kinds(config, 0)
    if getattr(model, "_is_stateful", False) and not kinds:  # hybrids without a recurrent layer are none
        raise UnsupportedModel(
            f"{kind} is recurrent: its state cannot be taken back when drafted tokens are rejected; "
            "use a model with ordinary attention"
        )
    if getattr(config, "num_kv_shared_layers", 0):
        raise UnsupportedModel(
            f"{kind} shares keys and values between layers: a plan that skips one would starve others"
        )


def body_of(model: Any) -> tuple[Any, Sequence[Any]]:
    """The decoder (of the text part, in a multimodal wrapper) and its layers. Raises UnsupportedModel."""
    decoder: Any = model.get_decoder()
    parts = [getattr(decoder, name, None) for name in ("language_model", "text_model")]
    for body in (decoder, *parts, model.base_model):
        layers = layer_list(body)
        if layers is not None:
            return body, list(layers)
    raise UnsupportedModel(f"{type(model).__name__} keeps no list of decoder layers that could be run one by one")


def layer_list(body: Any) -> nn.ModuleList | None:
    """Where a decoder keeps its layers, for those who put others in their place."""
    for name in ("layers", "h"):
        layers: Any = getattr(body, name, None)
        if isinstance(layers, nn.ModuleList) and len(layers):
            return layers
    return None
