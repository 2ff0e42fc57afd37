"""Which layers see only the last so many positions, and which kinds of attention cannot be placed at all."""

from __future__ import annotations

from typing import Any

from ..errors import UnsupportedModel
from .observe import OTHER, observe

_STATEFUL = ("linear", "conv", "mamba", "recurrent", "hybrid", "ssm")
# types whose attention is not a registered one, here or before transformers 5, but was read: it sees all before it
_SEE_ALL = (
    *("falcon", "bloom", "gptj", "codegen", "gpt_bigcode", "opt", "biogpt", "persimmon", "stablelm", "nemotron"),
    *("diffllama", "olmoe", "granitemoe", "granitemoeshared"),
)


def layer_kinds(config: Any, layers: int) -> list[str]:
    """``config.layer_types``, or full attention throughout. Raises UnsupportedModel for kinds with another memory."""
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * layers
    for kind in kinds:
        if kind not in ("full_attention", "sliding_attention"):
            raise UnsupportedModel(f'model type "{config.model_type}" has layers of kind "{kind}", {_why(kind)}')
    return list(kinds)


def _why(kind: str) -> str:
    if any(word in kind for word in _STATEFUL):
        return "whose state cannot be taken back when drafted tokens are rejected: use a model with ordinary attention"
    return "which see neither all earlier tokens nor a sliding window: use a model with ordinary attention"


def windows_of(model: Any, config: Any, layers: int, length: int) -> list[int | None]:
    """The sliding window of each layer, None where it sees all, as the model's own masks have it.

    Raises UnsupportedModel for other masks, and where they cannot be found out.
    """
    seen = observe(model, config, length)
    if not seen and config.model_type in _SEE_ALL and getattr(config, "sliding_window", None) is None:
        return [None] * layers
    for layer in range(layers):
        if seen.get(layer, OTHER) == OTHER:
            why = (
                _why("mask") if layer in seen else "whose attention makes its own masks: what it sees cannot be checked"
            )
            raise UnsupportedModel(f'model type "{config.model_type}" has layers (layer {layer}), {why}')
    return [seen[layer] for layer in range(layers)]
