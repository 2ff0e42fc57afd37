"""Configurations of the serial families: windows, biases, odd heads, every rotary scaling."""

from __future__ import annotations

from versions import rope

ORIGINAL = 12  # tokens the rotary scalings were made for; texts here are longer


_LONG = {
    "original_max_position_embeddings": ORIGINAL,
    "factor": 4.0,
    "short_factor": [1.0, 1.1, 1.2, 1.4],
    "long_factor": [2.0, 2.5, 3.0, 4.0],
}
_YARN = {"factor": 4.0, "original_max_position_embeddings": ORIGINAL}
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, **_YARN}
_WINDOW = {"sliding_window": 5}

CASES: dict[str, dict[str, object]] = {
    "llama": {},
    "llama, head tied": {"tie_word_embeddings": True},
    "llama, biases": {"attention_bias": True, "mlp_bias": True},
    "llama, heads wider than hidden / heads": {"head_dim": 12},
    "llama, one key head": {"num_key_value_heads": 1},
    "llama, every head its own key": {"num_key_value_heads": 4},
    "llama, linear": rope("linear", factor=2.0),
    "llama, yarn": {**rope("yarn", **_YARN), "max_position_embeddings": 4 * ORIGINAL},
    "llama, llama3": {**rope("llama3", **_LLAMA3), "max_position_embeddings": 4 * ORIGINAL},
    "mistral": {"model_type": "mistral", "sliding_window": None},
    "mistral, window": {"model_type": "mistral", **_WINDOW},
    "mistral, window of two": {"model_type": "mistral", "sliding_window": 2},
    "mistral, heads wider than hidden / heads, tied": {
        "model_type": "mistral",
        "head_dim": 16,
        "tie_word_embeddings": True,
        **_WINDOW,
    },
    "qwen2": {"model_type": "qwen2"},
    "qwen2, windows from layer 1": {
        "model_type": "qwen2",
        "use_sliding_window": True,
        "max_window_layers": 1,
        **_WINDOW,
    },
    "qwen2, windows by layer type": {
        "model_type": "qwen2",
        "use_sliding_window": True,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        **_WINDOW,
    },
    "qwen2, window switched off": {"model_type": "qwen2", "use_sliding_window": False, **_WINDOW},
    "qwen2, tied, yarn": {"model_type": "qwen2", "tie_word_embeddings": True, **rope("yarn", **_YARN)},
    "qwen3": {"model_type": "qwen3"},
    "qwen3, biases, wide heads, windows": {
        "model_type": "qwen3",
        "attention_bias": True,
        "head_dim": 16,
        "use_sliding_window": True,
        "max_window_layers": 2,
        **_WINDOW,
    },
}
BY_LENGTH: dict[str, dict[str, object]] = {
    "llama, dynamic": {**rope("dynamic", factor=4.0), "max_position_embeddings": ORIGINAL},
    "qwen2, dynamic": {"model_type": "qwen2", **rope("dynamic", factor=4.0), "max_position_embeddings": ORIGINAL},
    "mistral, dynamic, window": {
        "model_type": "mistral",
        **rope("dynamic", factor=4.0),
        "max_position_embeddings": ORIGINAL,
        **_WINDOW,
    },
    "llama, dynamic, an original length that nobody reads": {
        **rope("dynamic", factor=4.0, original_max_position_embeddings=20),
        "max_position_embeddings": ORIGINAL,
    },
    "llama, longrope": {**rope("longrope", **_LONG), "max_position_embeddings": 4 * ORIGINAL},
    "qwen3, longrope": {"model_type": "qwen3", **rope("longrope", **_LONG), "max_position_embeddings": 4 * ORIGINAL},
}
ALL = {**CASES, **BY_LENGTH}
