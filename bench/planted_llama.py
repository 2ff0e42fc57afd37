"""Llama-shaped models with random weights, made on the device itself, whose best draft is known.

Each token's embedding is planted in the LM head's row of its successor, so that the text has clear winners (bf16 rounds
the logits of wholly random weights to ties) while the layers still move every logit. Silent layers add nothing: a
draft without them is always right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    intermediate: int
    heads: int
    vocab: int
    context: int = 4096


SHAPES = {
    "tiny": Shape(4, 64, 128, 4, 512),
    "7b": Shape(32, 4096, 11008, 32, 32000),
    "13b": Shape(40, 5120, 13824, 40, 32000),
}
_MARGIN = 16.0  # of the successor's logit, where all others together look like draws from N(0, 1)


def build(shape: Shape, device: torch.device, dtype: torch.dtype, seed: int = 0) -> Any:
    """A transformers model in eval mode; nothing is downloaded, nothing passes through main memory."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=shape.context,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    with device:
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval().requires_grad_(False)
    _plant_text(model, seed)
    plant(model, (), seed)
    return model


@torch.no_grad()
def plant(model: Any, silent: Iterable[int], seed: int = 0) -> None:
    """New weights for all layers; those of ``silent`` add nothing to the residual stream."""
    chosen = set(silent)
    layers = model.model.layers
    generator = torch.Generator(model.device).manual_seed(seed)
    for index, layer in enumerate(layers):
        for name, weight in layer.named_parameters():
            last = name.endswith(("o_proj.weight", "down_proj.weight"))
            if last and index in chosen:
                weight.zero_()
            elif weight.dim() > 1:
                scale = (2 * len(layers)) ** -0.5 if last else 1.0
                weight.normal_(0.0, 1.5 * scale * weight.shape[-1] ** -0.5, generator=generator)


@torch.no_grad()
def _plant_text(model: Any, seed: int) -> None:
    generator = torch.Generator(model.device).manual_seed(seed + 1)
    table, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    V, H = head.shape
    table.normal_(0.0, 1.0, generator=generator)
    head.normal_(0.0, H**-0.5, generator=generator)
    successors = torch.randperm(V, generator=generator, device=model.device)
    head[successors] += (_MARGIN / H * table).to(head.dtype)
