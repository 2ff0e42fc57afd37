"""Which layers see only the last so many positions, and which kinds of attention cannot be placed at all."""

from __future__ import annotations

from typing import Any

from ..errors import UnsupportedModel


def layer_kinds(config: Any, layers: int) -> list[str]:
    """``config.layer_types``, or full attention throughout. Raises UnsupportedModel for kinds with another memory."""
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * layers
    for kind in kinds:
        if kind not in ("full_attention", "sliding_attention"):
            raise UnsupportedModel(
                f'model type "{config.model_type}" has layers of kind "{kind}", whose state cannot be taken back when '
                "drafted tokens are rejected: use a model with ordinary attention"
            )
    return list(kinds)


def windows_of(config: Any, layers: int) -> list[int | None]:
    """The sliding window of each layer, None where it sees all."""
    window = getattr(config, "sliding_window", None)
    if not getattr(config, "layer_types", None):
        return [window] * layers
    return [window if kind == "sliding_attention" else None for kind in layer_kinds(config, layers)]
