"""What differs between model types: where the sublayers are, how a block adds them up, which layers see a window only.

Submodule names are checkpoint keys and stable, so they are named here; nothing of a model is copied or patched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ..errors import UnsupportedModel, did_you_mean
from ..plan import LayerPlan

Attend = Callable[[nn.Module, Tensor], Tensor]  # (attention module, normed hidden) -> attention output
Block = Callable[[Any, Tensor, LayerPlan, int, Attend], Tensor]


def serial(layer: Any, x: Tensor, plan: LayerPlan, index: int, attend: Attend) -> Tensor:
    """x += attn(norm(x)); x += mlp(norm(x)). x is [B, N, H]; a sublayer the plan skips drops its norm too."""
    if plan.runs_attn(index):
        x = x + attend(layer.self_attn, layer.input_layernorm(x))
    if plan.runs_mlp(index):
        x = x + layer.mlp(layer.post_attention_layernorm(x))
    return x


@dataclass(frozen=True)
class Wiring:
    """How to run one model type. ``windows(config)``: the sliding window of each layer, None where it sees all."""

    block: Block
    windows: Callable[[Any], list[int | None]]


def no_windows(config: Any) -> list[int | None]:
    return [None] * config.num_hidden_layers


def same_window(config: Any) -> list[int | None]:
    """Every layer has the config's window (mistral)."""
    return [config.sliding_window] * config.num_hidden_layers


def windows_by_layer_type(config: Any) -> list[int | None]:
    """Layers of type sliding_attention have the config's window (qwen2, qwen3)."""
    return [config.sliding_window if kind == "sliding_attention" else None for kind in config.layer_types]


def wirings() -> dict[str, Wiring]:
    """Known wirings by ``config.model_type``."""
    return {
        "llama": Wiring(serial, no_windows),
        "mistral": Wiring(serial, same_window),
        "qwen2": Wiring(serial, windows_by_layer_type),
        "qwen3": Wiring(serial, windows_by_layer_type),
    }


def wiring_of(model_type: str) -> Wiring:
    """Raises UnsupportedModel for a type that no table names."""
    known = wirings()
    if model_type not in known:
        raise UnsupportedModel(f'model type "{model_type}" is not supported yet: {did_you_mean(model_type, known)}')
    return known[model_type]
