"""Which wiring a layer has: read off its submodules, with the few facts no name gives away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .wiring import Wiring

_SERIAL = Wiring()
_SANDWICH = Wiring(mlp_norm="pre_feedforward_layernorm", attn_post="post_attention_layernorm", mlp_post="post_feedforward_layernorm")
_GLM4 = Wiring(attn_post="post_self_attn_layernorm", mlp_post="post_mlp_layernorm")
_POST = Wiring(
    attn_norm=None, mlp_norm=None, attn_post="post_attention_layernorm", mlp_post="post_feedforward_layernorm"
)
_PARALLEL = Wiring(mlp_norm="input_layernorm", parallel=True)
_GPT2 = Wiring(attn="attn", attn_norm="ln_1", mlp_norm="ln_2")


def wirings_of(layer: Any, config: Any) -> Iterator[Wiring]:
    """The wirings a layer may have, likeliest first: the one its model type is known for, then what its names allow."""
    known = _known(layer, config)
    if known is not None:
        yield known
        return
    names = {name for name, _ in layer.named_children()}
    attn = next((name for name in ("self_attn", "attention", "attn", "self_attention") if name in names), "self_attn")
    for wiring in (_SANDWICH, _GLM4, _SERIAL, _POST, _PARALLEL, _GPT2):
        candidate = _renamed(wiring, attn)
        if _parts(candidate) <= names:
            yield candidate


def _renamed(wiring: Wiring, attn: str) -> Wiring:
    from dataclasses import replace

    return replace(wiring, attn=attn)


def _parts(wiring: Wiring) -> set[str]:
    named = (wiring.attn, wiring.mlp, wiring.attn_norm, wiring.mlp_norm, wiring.attn_post, wiring.mlp_post)
    return {name for name in named if name is not None}


def _known(layer: Any, config: Any) -> Wiring | None:
    """Types whose submodule names alone would mislead."""
    match config.model_type:
        case "gpt_neox":
            return Wiring(attn="attention", parallel=config.use_parallel_residual)
        case "falcon":
            return _falcon(config)
        case "opt":
            return Wiring(
                mlp=None,
                attn_norm="self_attn_layer_norm",
                mlp_norm="final_layer_norm",
                after=not config.do_layer_norm_before,
            )
        case "stablelm":
            return _PARALLEL if config.use_parallel_residual else _SERIAL
        case _:
            return None


def _falcon(config: Any) -> Wiring:
    if config.new_decoder_architecture and config.num_ln_in_parallel_attn == 2:
        return Wiring(attn="self_attention", attn_norm="ln_attn", mlp_norm="ln_mlp", parallel=True)
    if config.new_decoder_architecture or config.parallel_attn:
        return Wiring(attn="self_attention", mlp_norm="input_layernorm", parallel=True)
    return Wiring(attn="self_attention")
