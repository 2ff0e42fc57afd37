"""Tiny models of any type transformers has: its own default configuration, with every size made small."""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from skipstone.hf.quiet import quiet
from skipstone.testing.tiny import fill

LARGEST = 20_000_000  # parameters; what stays larger than that is not worth its time

_SIZES: dict[int, tuple[str, ...]] = {
    96: ("vocab_size", "vocab_size_per_layer_input"),
    48: ("hidden_size", "n_embd", "d_model", "dim"),
    64: ("intermediate_size", "ffn_hidden_size", "ffn_dim", "decoder_ffn_dim", "encoder_ffn_dim", "n_inner", "dff"),
    4: (
        *("num_hidden_layers", "num_layers", "n_layer", "n_layers", "decoder_layers", "num_decoder_layers"),
        *("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "rotary_dim"),
    ),
    2: ("num_key_value_heads", "num_kv_heads", "num_experts_per_tok", "moe_k", "encoder_layers", "num_encoder_layers"),
    6: (
        *("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"),
        *("encoder_attention_heads", "num_decoder_attention_heads", "num_encoder_attention_heads", "mamba_n_heads"),
    ),
    8: ("head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "swa_head_dim", "linear_head_dim"),
    128: ("max_position_embeddings", "n_positions", "max_seq_len"),
    16: (
        "moe_intermediate_size",
        "shared_expert_intermediate_size",
        "kv_lora_rank",
        "q_lora_rank",
        "router_hidden_size",
    ),
    1: ("n_group", "topk_group", "first_k_dense_replace", "max_window_layers"),
    5: ("sliding_window", "sliding_window_size", "local_attention"),
    32: ("word_embed_proj_dim",),
}
_ONLY_WHERE_SET = ("sliding_window", "q_lora_rank")
_TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
# what small sizes alone leave inconsistent
_LATENT = {"num_key_value_heads": 6}
_TYPES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("deepseek_v3", "axk1", "youtu", "sarvam_mla", "glm4_moe_lite", "minicpm3"), _LATENT),
    "deepseek_v2": {"num_key_value_heads": 6, "head_dim": 8},
    "mimo_v2_flash": {"num_key_value_heads": 3},
    "bamba": {"mamba_n_heads": 6, "mamba_d_head": 16},
    "mamba2": {"num_heads": 12, "head_dim": 8, "n_groups": 1},
    "zaya": {"num_experts_per_tok": 1},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "window_size": 5},
    "gemma3n_text": {"num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention"] * 2},
    "gemma4_text": {"num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention"] * 2},
    "llama4_text": {"attention_chunk_size": 5, "intermediate_size_mlp": 64},
    "lfm2": {"full_attn_idxs": [1, 3]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "reformer": {"is_decoder": True, "axial_pos_embds": False},
    "dots1": {"n_shared_experts": 1},
    "granitemoehybrid": {"mamba_n_heads": 6},
    "falcon": {"new_decoder_architecture": True},
    "falcon_h1": {"mamba_n_heads": 8, "mamba_d_head": 12, "mamba_d_ssm": 96},
    "zamba2": {"num_hidden_layers": 2, "layers_block_type": ["linear_attention", "hybrid"], "mamba_d_state": 8},
    "kimi_linear": {"num_key_value_heads": 6},
    "qwen4_exp_text": {
        **{"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 4},
        **{"indexer_compress_ratio": 2, "ngram_vocab_size_base": 100, "split_ngram_parts": 1},
    },
}


class CannotBeSmall(Exception):
    """The configuration of a type resists, or needs what is not installed."""


def any_model(model_type: str, **config: Any) -> Any:
    """A tiny model of the type in float64, every number random. Raises CannotBeSmall."""
    with quiet():
        try:
            model = _built(_settings(model_type, config))
        except (Exception, RecursionError) as error:
            raise CannotBeSmall(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error
    fill(model, seed=0)
    return model


def _built(settings: Any) -> Any:
    settings._experts_implementation = "eager"
    with torch.device("meta"):
        size = sum(weight.numel() for weight in AutoModelForCausalLM.from_config(settings).parameters())
    if size > LARGEST:
        raise CannotBeSmall(f"{size} parameters")
    return AutoModelForCausalLM.from_config(copy.deepcopy(settings), dtype=torch.float64).eval()


def _settings(model_type: str, config: dict[str, Any]) -> Any:
    kind = CONFIG_MAPPING[model_type]
    small = {**_small(kind), **_parts(kind), **copy.deepcopy(_TYPES.get(model_type, {})), **config}
    try:
        return kind(**small)
    except Exception:  # some insist on token ids
        return kind(**{**small, **{name: n for n, name in enumerate(_TOKENS) if hasattr(kind(), name)}})


def _small(kind: Any) -> dict[str, Any]:
    """Every size field the configuration class has."""
    default = kind()
    known = set(kind.attribute_map) | set(default.to_dict())
    fields = {name: size for size, names in _SIZES.items() for name in names if name in known}
    unset = {name for name in _ONLY_WHERE_SET if getattr(default, name, None) is None}
    kept = {n: size for n, size in fields.items() if n not in unset and not _computed(kind, n)}
    return {**kept, **dict.fromkeys(_TOKENS[:3])}


def _parts(kind: Any) -> dict[str, Any]:
    """The same for configurations inside it."""
    parts = {}
    for name in getattr(kind, "sub_configs", {}):
        part = getattr(kind(), name, None)
        if part is not None:
            parts[name] = {**_small(type(part)), "model_type": type(part).model_type}
    return parts


def _computed(kind: Any, name: str) -> bool:
    found = getattr(kind, name, None)
    return isinstance(found, property) and found.fset is None
