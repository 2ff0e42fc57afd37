"""Planted models of any size out of random numbers: Llamas whose text wanders as if it meant something."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import UsageError
from ...plan import LayerPlan
from .idle import Sublayers, check_leak, hidden_places, silence
from .model import PlantedModel, planted_skip

# The residual stream must be made by the layers more than by the newest token, or greedy text ends in short loops.
_EMBEDDED, _INNER, _READ = 1.0, 1.5, 3.0
_POOL = 1 << 24  # numbers drawn; larger matrices repeat them


@dataclass(frozen=True)
class Shape:
    """The sizes of a Llama."""

    layers: int = 12
    hidden: int = 768
    mlp: int = 2048
    heads: int = 12
    kv_heads: int = 4
    vocab_size: int = 4096
    context: int = 2048
    tied: bool = False

    def __post_init__(self) -> None:
        sizes = (self.layers, self.hidden, self.mlp, self.heads, self.kv_heads, self.vocab_size, self.context)
        if min(sizes) < 1 or self.hidden % (2 * self.heads) or self.heads % self.kv_heads:
            raise UsageError(
                f"no Llama has the shape {self}: use sizes of 1 or more, heads that share hidden evenly (an even "
                "number each) and are a multiple of kv_heads"
            )


def exit_form(shape: Shape | None = None, *, exit_layer: int = 3, seed: int = 0, leak: float = 0.0) -> PlantedModel:
    """From ``exit_layer`` on every sublayer idles: a draft that exits there is always right."""
    shape = shape or Shape()
    check_leak(leak)
    if not 1 <= exit_layer < shape.layers:
        raise UsageError(f"exit_layer={exit_layer} is not inside {shape.layers} layers: use 1 to {shape.layers - 1}")
    idle = Sublayers.whole(range(exit_layer, shape.layers))
    model = random_llama(shape, seed)
    silence(model, idle, leak)
    return PlantedModel(model, LayerPlan.until(exit_layer), idle, leak)


def skip_form(
    shape: Shape | None = None, *, attn: int = 6, mlp: int | None = None, seed: int = 0, leak: float = 0.0
) -> PlantedModel:
    """``attn`` attention and ``mlp`` MLP sublayers idle at places hidden by ``seed``; ``mlp`` None: whole layers do."""
    shape = shape or Shape()
    check_leak(leak)
    attn_places = hidden_places(shape.layers, attn, seed)
    mlp_places = attn_places if mlp is None else hidden_places(shape.layers, mlp, seed + 1)
    return planted_skip(random_llama(shape, seed), Sublayers(attn_places, mlp_places), leak)


def random_llama(shape: Shape, seed: int = 0, *, alike: bool = False) -> Any:
    """A Llama of random numbers, each of which float16 holds; ``alike`` layers share them (and their memory)."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from ...hf.quiet import quiet

    with quiet(), _unfilled():
        model: Any = LlamaForCausalLM(LlamaConfig(**_config(shape)))
    draw = _Draw(seed)
    for index, layer in enumerate(model.model.layers):
        if alike and index:
            _copy_numbers(model.model.layers[0], layer)
        else:
            _fill(layer, draw)
    _set(model.model.embed_tokens, "weight", draw(model.model.embed_tokens.weight.shape, _EMBEDDED))
    if shape.tied:
        model.tie_weights()
    else:
        _set(model.lm_head, "weight", draw(model.lm_head.weight.shape, _READ / shape.hidden**0.5))
    _set(model.model.norm, "weight", torch.ones(shape.hidden))
    return model.float().eval().requires_grad_(False)


def _config(shape: Shape) -> dict[str, Any]:
    return {
        "vocab_size": shape.vocab_size,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.mlp,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "max_position_embeddings": shape.context,
        "tie_word_embeddings": shape.tied,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }


def _unfilled() -> Any:
    """Inside, modules are made without their numbers, which take long to draw and are thrown away."""
    from accelerate import init_empty_weights

    return init_empty_weights(include_buffers=False)


class _Draw:
    """Normal numbers of a seed, rounded to what float16 holds."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, shape: torch.Size, scale: float) -> Tensor:
        count = shape.numel()
        drawn = torch.randn(min(count, _POOL), generator=self._generator).mul_(scale).half().float()
        return drawn.repeat(-(-count // len(drawn)))[:count].view(shape)


def _fill(layer: nn.Module, draw: _Draw) -> None:
    for module in layer.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            flat = weight.dim() < 2
            _set(
                module, name, torch.ones(weight.shape) if flat else draw(weight.shape, _INNER / weight.shape[1] ** 0.5)
            )


def _copy_numbers(source: nn.Module, target: nn.Module) -> None:
    for theirs, ours in zip(source.modules(), target.modules(), strict=True):
        for name, weight in list(theirs.named_parameters(recurse=False)):
            _set(ours, name, weight.data)


def _set(module: Any, name: str, numbers: Tensor) -> None:
    setattr(module, name, nn.Parameter(numbers, requires_grad=False))
