"""One of every kind: tiny configurations that make each part of a model type matter, and what each of them covers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from versions import rope

WINDOW = 5  # shorter than every prompt here
_SLIDING = {"sliding_window": WINDOW}
_MIX = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], **_SLIDING}
_NO_HEADS = {"num_key_value_heads": 6}
_MLA = {
    "num_key_value_heads": 6,
    "q_lora_rank": 20,
    "kv_lora_rank": 12,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 10,
}
_MLA_BY_NAME = {"head_dim": 4}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_LOCAL_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
_ROUTED = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 1.7,
}
_GRANITE = {
    "attention_multiplier": 0.3,
    "residual_multiplier": 0.7,
    "embedding_multiplier": 3.0,
    "logits_scaling": 2.5,
}
SOFTMAX = "softmax in float32"
ROUTER = "router in float32"


@dataclass(frozen=True)
class Sample:
    """A configuration, and what it makes matter.

    ``rounds``: what the model's own code computes in less than float64, so that a text in chunks differs from the text
    at once by float32 rounding.
    """

    model_type: str
    covers: str
    config: Mapping[str, Any]
    rounds: str = ""


def _sample(model_type: str, covers: str = "", rounds: str = "", **config: Any) -> Sample:
    base = {"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 2}
    return Sample(model_type, covers, {**base, **config}, rounds)


ALL: dict[str, Sample] = {
    # llama and what is wired like it
    "llama": _sample("llama", "head_dim", head_dim=12),
    "llama, biases": _sample(
        "llama", "biases, tied head", attention_bias=True, mlp_bias=True, tie_word_embeddings=True
    ),
    "mistral": _sample("mistral", "sliding window, head_dim", head_dim=12, **_SLIDING),
    "ministral": _sample("ministral", "sliding and full layers", **_MIX),
    "ministral3": _sample(
        "ministral3",
        "queries scaled by position",
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 16.0,
            "original_max_position_embeddings": 16,
            "llama_4_scaling_beta": 0.3,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
        },
    ),
    "qwen2": _sample("qwen2", "biases, sliding and full layers", use_sliding_window=True, **_MIX),
    "qwen3": _sample("qwen3", "query/key norms, head_dim", head_dim=12, attention_bias=True),
    "smollm3": _sample("smollm3", "layers without positions", no_rope_layers=[1, 0, 1]),
    "seed_oss": _sample("seed_oss", "biases", head_dim=12, attention_bias=True, attention_out_bias=True),
    "arcee": _sample("arcee", "squared ReLU"),
    "bitnet": _sample("bitnet", "norms inside the sublayers"),
    "apertus": _sample("apertus", "query/key norms, xIELU"),
    "helium": _sample("helium", "interleaved rotary"),
    "glm": _sample("glm", "partial rotary, biases", partial_rotary_factor=0.5, attention_bias=True),
    "ernie4_5": _sample("ernie4_5", "biases", use_bias=True),
    "hunyuan_v1_dense": _sample("hunyuan_v1_dense", "query/key norms after rotary"),
    "diffllama": _sample("diffllama", "differential attention", num_key_value_heads=6),
    "nemotron": _sample("nemotron", "partial rotary, layer norm + 1", partial_rotary_factor=0.5),
    "cwm": _sample("cwm", "sliding and full layers", bos_token_id=1, eos_token_id=[2], pad_token_id=0, **_MIX),
    "jais2": _sample("jais2", "layer norms, biases", attention_bias=True, mlp_bias=True),
    "internlm3": _sample("internlm3", "biases", attention_bias=True, mlp_bias=True),
    "exaone": _sample("exaone", "as llama"),
    "iquestcoder": _sample("iquestcoder", "as llama"),
    "phi3": _sample("phi3", "fused projections, partial rotary, window", partial_rotary_factor=0.5, **_SLIDING),
    "phi3, longrope": _sample(
        "phi3",
        "frequencies by length",
        original_max_position_embeddings=10,
        **rope("longrope", short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[2.0, 3.0, 4.0, 6.0]),
    ),
    "persimmon": _sample("persimmon", "query/key layer norms, partial rotary", partial_rotary_factor=0.5, **_NO_HEADS),
    "starcoder2": _sample("starcoder2", "layer norms, biases, window", **_SLIDING),
    "olmo": _sample("olmo", "norms without weights, clipped projections", clip_qkv=1.5),
    "stablelm": _sample(
        "stablelm", "layer norms, partial rotary, biases", partial_rotary_factor=0.5, use_qkv_bias=True
    ),
    "nanochat": _sample("nanochat", "norm on the embedding, capped logits", final_logit_softcapping=10.0),
    "granite": _sample("granite", "embedding, residual, attention and logit factors", head_dim=12, **_GRANITE),
    "granite_swa": _sample(
        "granite_swa", "embedding, residual, attention and logit factors, windows", SOFTMAX, **_GRANITE, **_MIX
    ),
    "hyperclovax": _sample(
        "hyperclovax", "embedding, residual, attention and logit factors", use_post_norm=True, **_GRANITE
    ),
    # norms behind the sublayers
    "gemma": _sample("gemma", "scaled embedding, norm + 1, head_dim", head_dim=12, tie_word_embeddings=True),
    "gemma2": _sample(
        "gemma2",
        "soft caps, windows",
        SOFTMAX,
        head_dim=12,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=10.0,
        query_pre_attn_scalar=5,
        **_MIX,
    ),
    "gemma3_text": _sample(
        "gemma3_text",
        "two rotary bases, query/key norms, windows",
        head_dim=12,
        query_pre_attn_scalar=5,
        rope_local_base_freq=100.0,
        **_MIX,
    ),
    "gemma4_text": _sample(
        "gemma4_text",
        "scaled layers, wider heads in full layers, windows",
        global_head_dim=16,
        hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=64,
        **_MIX,
    ),
    "vaultgemma": _sample("vaultgemma", "windows", SOFTMAX, query_pre_attn_scalar=5, **_MIX),
    "glm4": _sample("glm4", "partial rotary", head_dim=12, partial_rotary_factor=0.5, attention_bias=True),
    "olmo2": _sample("olmo2", "query/key norms", head_dim=12),
    "olmo3": _sample("olmo3", "windows", **_MIX),
    "exaone4": _sample("exaone4", "windows, full layers without positions", **_MIX),
    # attention and MLP side by side
    "phi": _sample("phi", "partial rotary, query/key norms", partial_rotary_factor=0.5, qk_layernorm=True, **_NO_HEADS),
    "cohere": _sample("cohere", "logit factor, query/key norms", logit_scale=0.4, use_qk_norm=True),
    "cohere2": _sample("cohere2", "windows, full layers without positions", head_dim=12, logit_scale=0.4, **_MIX),
    "stablelm, parallel": _sample(
        "stablelm",
        "query/key norms",
        use_parallel_residual=True,
        qk_layernorm=True,
        partial_rotary_factor=0.5,
    ),
    "gpt_neox": _sample("gpt_neox", "partial rotary", rotary_pct=0.5),
    "gpt_neox, serial": _sample("gpt_neox", "", use_parallel_residual=False, rotary_pct=0.5),
    "gptj": _sample("gptj", "interleaved partial rotary", rotary_dim=4),
    "codegen": _sample("codegen", "interleaved partial rotary", num_attention_heads=4, rotary_dim=4),
    "falcon": _sample("falcon", "7b: one key head", multi_query=True, parallel_attn=True),
    "falcon, serial": _sample("falcon", "rw: ALiBi", multi_query=False, parallel_attn=False, alibi=True, bias=True),
    "falcon, serial, rotary": _sample("falcon", "rotary in series", multi_query=False, parallel_attn=False),
    "falcon, two norms": _sample(
        "falcon", "40b: key heads in groups, two norms", new_decoder_architecture=True, num_kv_heads=2
    ),
    "falcon, one norm": _sample(
        "falcon",
        "11b: key heads in groups, one norm",
        new_decoder_architecture=True,
        num_kv_heads=2,
        num_ln_in_parallel_attn=1,
    ),
    # learned positions, ALiBi
    "gpt2": _sample("gpt2", "learned positions, tied head", tie_word_embeddings=True),
    "gpt_bigcode": _sample("gpt_bigcode", "learned positions, one key head", multi_query=True),
    "gpt_bigcode, all heads": _sample("gpt_bigcode", "a key for every head", multi_query=False),
    "opt": _sample("opt", "learned positions, narrow embedding", ffn_dim=56, word_embed_proj_dim=32),
    "opt, post-norm": _sample(
        "opt", "350m: projections", ffn_dim=56, do_layer_norm_before=False, word_embed_proj_dim=32
    ),
    "biogpt": _sample("biogpt", "learned positions, scaled embedding", scale_embedding=True),
    "bloom": _sample("bloom", "ALiBi, norm on the embedding", SOFTMAX),
    # mixtures of experts
    "mixtral": _sample("mixtral", "experts, window", **_LOCAL_EXPERTS, **_SLIDING),
    "qwen2_moe": _sample("qwen2_moe", "shared expert", shared_expert_intermediate_size=24, **_EXPERTS),
    "qwen3_moe": _sample(
        "qwen3_moe", "dense and expert layers", head_dim=12, mlp_only_layers=[1], norm_topk_prob=True, **_EXPERTS
    ),
    "olmoe": _sample("olmoe", "experts, query/key norms", **_EXPERTS),
    "flex_olmo": _sample("flex_olmo", "experts", **_EXPERTS),
    "granitemoe": _sample("granitemoe", "experts, factors", **_LOCAL_EXPERTS, **_GRANITE),
    "granitemoeshared": _sample(
        "granitemoeshared", "experts beside a shared MLP", shared_intermediate_size=24, **_LOCAL_EXPERTS, **_GRANITE
    ),
    "granitemoehybrid": _sample(
        "granitemoehybrid",
        "attention layers only",
        layer_types=["full_attention"] * 3,
        mamba_n_heads=6,
        shared_intermediate_size=24,
        **_LOCAL_EXPERTS,
        **_GRANITE,
    ),
    "granitemoe_swa": _sample(
        "granitemoe_swa", "experts, windows", SOFTMAX, shared_intermediate_size=24, **_LOCAL_EXPERTS, **_GRANITE, **_MIX
    ),
    "phimoe": _sample("phimoe", "experts, biases", attention_bias=True, lm_head_bias=True, **_LOCAL_EXPERTS),
    "gpt_oss": _sample("gpt_oss", "attention sinks, windows, biased experts", head_dim=12, **_LOCAL_EXPERTS, **_MIX),
    "glm4_moe": _sample("glm4_moe", "dense and expert layers, shared expert", ROUTER, use_qk_norm=True, **_ROUTED),
    "ernie4_5_moe": _sample(
        "ernie4_5_moe",
        "experts, shared experts",
        ROUTER,
        moe_num_experts=4,
        moe_k=2,
        moe_num_shared_experts=1,
        moe_intermediate_size=16,
        moe_layer_start_index=1,
    ),
    "dots1": _sample("dots1", "experts, query/key norms, windows", ROUTER, **_ROUTED, **_MIX),
    "hunyuan_v1_moe": _sample("hunyuan_v1_moe", "experts, shared MLP", ROUTER, num_experts=4, moe_topk=2),
    "minimax_m2": _sample("minimax_m2", "experts, query/key norms", ROUTER, **_LOCAL_EXPERTS),
    "afmoe": _sample(
        "afmoe",
        "experts, gated attention, windows",
        ROUTER,
        mup_enabled=True,
        num_dense_layers=1,
        num_shared_experts=1,
        **_EXPERTS,
        **_MIX,
    ),
    "exaone_moe": _sample("exaone_moe", "experts, windows", ROUTER, **_EXPERTS, **_MIX),
    "cohere2_moe": _sample("cohere2_moe", "experts, windows", **_EXPERTS, **_MIX),
    "flint": _sample(
        "flint", "experts, attention sinks, windows", SOFTMAX, shared_expert_intermediate_size=24, **_EXPERTS, **_MIX
    ),
    "laguna": _sample("laguna", "experts, gated attention", ROUTER, **_EXPERTS, **_MIX),
    "jetmoe": _sample("jetmoe", "experts in attention and MLP", num_local_experts=4, num_experts_per_tok=2),
    "aria_text": _sample(
        "aria_text", "experts, shared experts", moe_num_experts=4, moe_topk=2, moe_num_shared_experts=1
    ),
    "solar_open": _sample("solar_open", "experts", ROUTER, **_ROUTED),
    # keys and values from a narrow latent
    "deepseek_v2": _sample("deepseek_v2", "latent keys and values, experts", ROUTER, **_ROUTED, **_MLA, **_MLA_BY_NAME),
    "deepseek_v3": _sample("deepseek_v3", "latent keys and values, experts", ROUTER, **_ROUTED, **_MLA, **_MLA_BY_NAME),
    "minicpm3": _sample("minicpm3", "latent keys and values, factors", dim_model_base=16, **_MLA),
    "youtu": _sample("youtu", "latent keys and values", **_MLA, **_MLA_BY_NAME),
    "glm4_moe_lite": _sample(
        "glm4_moe_lite", "latent keys and values, experts", ROUTER, **_ROUTED, **_MLA, **_MLA_BY_NAME
    ),
    "mimo_v2_flash": _sample(
        "mimo_v2_flash",
        "other key heads in windows, sinks",
        ROUTER,
        v_head_dim=10,
        num_key_value_heads=3,
        **_ROUTED,
        **_MIX,
    ),
}
