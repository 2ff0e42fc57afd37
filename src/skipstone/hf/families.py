"""Which wiring a layer has: read off its submodules, with the few facts no name gives away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from ..errors import UnsupportedModel
from .wiring import Wiring

_ATTENTIONS = ("self_attn", "attention", "attn", "self_attention")
_MLPS = ("mlp", "block_sparse_moe+shared_mlp", "block_sparse_moe", "shared_mlp", "feed_forward")


def wirings_of(layer: Any, config: Any) -> list[Wiring]:
    """The wirings a layer may have, likeliest first: the one its model type is known for, or what its names allow.

    Raises UnsupportedModel where there is none.
    """
    known = _known(config)
    if known is not None:
        return [known]
    names = {name for name, _ in layer.named_children()}
    if crossing := sorted(name for name in names if name.startswith(("encoder_attn", "cross"))):
        raise UnsupportedModel(
            f'model type "{config.model_type}" attends to an encoder ({crossing[0]}): use a decoder-only model'
        )
    found = [wiring for wiring in _candidates() if _parts(wiring) <= names]
    if not found:
        raise UnsupportedModel(
            f'model type "{config.model_type}": how a {type(layer).__name__} adds up its parts '
            f"({', '.join(sorted(names))}) is not known"
        )
    return found


def _candidates() -> Iterator[Wiring]:
    """Every shape with every naming; those with more norms first, since fewer names would fit the same layer."""
    for shape, attn, mlp in product(_shapes(), _ATTENTIONS, _MLPS):
        yield replace(shape, attn=attn, mlp=mlp)


def _shapes() -> list[Wiring]:
    behind: Any = {"attn_post": "post_attention_layernorm", "mlp_post": "post_feedforward_layernorm"}
    return [
        Wiring(mlp_norm="pre_feedforward_layernorm", **behind),
        Wiring(attn_post="post_self_attn_layernorm", mlp_post="post_mlp_layernorm"),
        Wiring(attn_post="post_attention_layernorm", mlp_norm="pre_mlp_layernorm", mlp_post="post_mlp_layernorm"),
        Wiring(attn_post="post_norm1", mlp_post="post_norm2"),
        Wiring(mlp_norm="pre_feedforward_layernorm"),
        Wiring(),
        Wiring(attn_norm="attention_layernorm", mlp_norm="feedforward_layernorm"),
        Wiring(attn_norm="ln_1", mlp_norm="ln_2"),
        Wiring(attn_norm=None, mlp_norm=None, **behind),
        Wiring(parallel=True),
        Wiring(mlp_norm="input_layernorm", parallel=True),
        Wiring(attn_norm="ln_1", mlp_norm="ln_1", parallel=True),
    ]


def _parts(wiring: Wiring) -> set[str]:
    mlps = (wiring.mlp or "").split("+")
    named = (wiring.attn, *mlps, wiring.attn_norm, wiring.mlp_norm, wiring.attn_post, wiring.mlp_post)
    return {name for name in named if name is not None}


def _known(config: Any) -> Wiring | None:
    """Types whose submodule names alone would mislead."""
    match config.model_type:
        case "gpt_neox":
            return Wiring(attn="attention", parallel=config.use_parallel_residual)
        case "falcon":
            return _falcon(config)
        case "opt" | "biogpt":
            after = not getattr(config, "do_layer_norm_before", True)
            return Wiring(mlp=None, attn_norm="self_attn_layer_norm", mlp_norm="final_layer_norm", after=after)
        case "stablelm" if config.use_parallel_residual:
            return Wiring(mlp_norm="input_layernorm", parallel=True)
        case _:
            return None


def _falcon(config: Any) -> Wiring:
    if config.new_decoder_architecture and config.num_ln_in_parallel_attn == 2:
        return Wiring(attn="self_attention", attn_norm="ln_attn", mlp_norm="ln_mlp", parallel=True)
    if config.new_decoder_architecture or config.parallel_attn:
        return Wiring(attn="self_attention", mlp_norm="input_layernorm", parallel=True)
    return Wiring(attn="self_attention")
