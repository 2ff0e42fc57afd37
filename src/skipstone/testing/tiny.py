"""A network small enough to test with in milliseconds, on which nothing is too small to notice."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

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
# what the last matrix of an attention or MLP is called
_LAST = {"o_proj", "out_proj", "dense", "c_proj", "down_proj", "fc2", "fc_out", "dense_4h_to_h", "w2", "wo"}


def tiny_network(
    model_type: str = "llama",
    *,
    layers: int = 4,
    seed: int = 0,
    agreeing: float = 0.0,
    dtype: torch.dtype = torch.float64,
    **config: Any,
) -> HFNetwork:
    """A small transformers model of any type with the weights of ``seed``; ``config`` overrides its configuration.

    ``agreeing`` from 0 to 1 weakens every layer after the first, so that drafts of some layers guess right more often
    (in vain where norms behind the sublayers make up for it).
    """
    from ..hf.body import body_of
    from ..hf.fit import fit

    model = tiny_model(model_type, layers=layers, seed=seed, dtype=dtype, **config)
    if agreeing:
        _weaken(body_of(model)[1][1:], 1 - agreeing)
    return fit(model)[0]


def tiny_model(
    model_type: str = "llama", *, layers: int = 4, seed: int = 0, dtype: torch.dtype = torch.float64, **config: Any
) -> Any:
    """The model of ``tiny_network``."""
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    fields = {**_TINY, "num_hidden_layers": layers, **copy.deepcopy(config)}  # some types edit their lists in place
    settable = {name: value for name, value in fields.items() if not _computed(CONFIG_MAPPING[model_type], name)}
    settings = AutoConfig.for_model(model_type, **settable)
    if dtype == torch.float64:
        settings._experts_implementation = "eager"  # grouped products know no float64
    model = AutoModelForCausalLM.from_config(settings, dtype=dtype).eval()
    fill(model, seed)
    return model


def _computed(settings: type, name: str) -> bool:
    """Whether a configuration class works ``name`` out by itself (Falcon's head_dim)."""
    found = getattr(settings, name, None)
    return isinstance(found, property) and found.fset is None


@torch.no_grad()
def fill(model: Any, seed: int) -> None:
    """Weights that make every part matter, unlike those that models start training from."""
    generator = torch.Generator().manual_seed(seed)
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    head = model.get_output_embeddings()
    for name, weight in _numbers(model):
        draw = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        if weight.dim() < 2:
            weight.copy_(0.2 * draw + (0.0 if name.endswith("bias") else 1.0))
        elif id(weight) in tables:
            weight.copy_(draw)
        else:
            weight.copy_(draw * (3.0 if head is not None and weight is head.weight else 1.5) / weight.shape[-1] ** 0.5)


def _numbers(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Parameters, then whatever else a checkpoint of the model holds."""
    yield from model.named_parameters()
    kept = model.state_dict().keys()
    yield from ((name, buffer) for name, buffer in model.named_buffers() if name in kept and buffer.is_floating_point())


@torch.no_grad()
def _weaken(layers: Sequence[Any], factor: float) -> None:
    for layer in layers:
        for name, weight in layer.named_parameters():
            if weight.dim() > 1 and not _LAST.isdisjoint(name.split(".")):
                weight *= factor
