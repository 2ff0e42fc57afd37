"""A network small enough to test with in milliseconds, on which nothing is too small to notice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from ..hf.network import HFNetwork

_TINY = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}


def tiny_network(
    model_type: str = "llama",
    *,
    layers: int = 4,
    seed: int = 0,
    agreeing: float = 0.0,
    dtype: torch.dtype = torch.float64,
    **config: Any,
) -> HFNetwork:
    """A small transformers model with the weights of ``seed``; ``config`` overrides any field of its configuration.

    ``agreeing`` from 0 to 1 weakens every layer after the first, so that drafts of some layers guess right more often.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    from ..hf.network import HFNetwork

    settings = AutoConfig.for_model(model_type, **{**_TINY, "num_hidden_layers": layers, **config})
    model = AutoModelForCausalLM.from_config(settings, dtype=dtype).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            _fill(name, weight, generator)
        for layer in model.model.layers[1:]:
            layer.self_attn.o_proj.weight *= 1 - agreeing
            layer.mlp.down_proj.weight *= 1 - agreeing
    return HFNetwork(model)


def _fill(name: str, weight: Tensor, generator: torch.Generator) -> None:
    """Weights that make attention and position matter, unlike the tiny ones models start training from."""
    draw = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    if weight.dim() == 1:
        value = 0.2 * draw + (0.0 if name.endswith("bias") else 1.0)
    else:
        value = draw * {"embed_tokens": 1.0, "lm_head": 3.0}.get(name.split(".")[-2], 1.5) / _spread(name, weight)
    weight.copy_(value)


def _spread(name: str, weight: Tensor) -> float:
    return 1.0 if "embed_tokens" in name else float(weight.shape[-1] ** 0.5)
