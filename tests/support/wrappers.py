"""Tiny multimodal models, of which only the text part is run: ``WRAPPERS`` names their configurations."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
from versions import rope

from skipstone.hf.fit import fit
from skipstone.hf.network import HFNetwork
from skipstone.testing.tiny import fill

_TEXT: dict[str, Any] = {
    **{"vocab_size": 64, "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 3, "head_dim": 8},
    **{"num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 256},
    **{"bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "tie_word_embeddings": False},
}
_VISION: dict[str, Any] = {
    **{"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
    **{"image_size": 16, "patch_size": 8},
}
_QWEN_VISION = {
    **{"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 16, "out_hidden_size": 48},
    **{"embed_dim": 16, "mlp_ratio": 1, "deepstack_visual_indexes": [0], "num_position_embeddings": 4},
}
_MIX = {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
_CLIP = {**_VISION, "model_type": "clip_vision_model"}
_SIGLIP = {**_VISION, "model_type": "siglip_vision_model"}


def _mrope(*sections: int) -> dict[str, Any]:
    return rope("default", mrope_section=list(sections))


def _llava(text: dict[str, Any], vision: dict[str, Any] = _CLIP, **more: Any) -> dict[str, Any]:
    return {
        "text_config": {**_TEXT, **text},
        "vision_config": vision,
        "image_token_index": 63,
        "image_token_id": 63,
        **more,
    }


_ALL: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma3": ("gemma3", {"text_config": {**_TEXT, **_MIX, "query_pre_attn_scalar": 5}, "vision_config": _VISION}),
    "gemma4": (
        "gemma4",
        {
            "text_config": {
                **_TEXT,
                **_MIX,
                "pad_token_id": 0,
                "global_head_dim": 16,
                "hidden_size_per_layer_input": 0,
                "vocab_size_per_layer_input": 64,
            },
            "vision_config": {
                **_VISION,
                "num_key_value_heads": 2,
                "head_dim": 8,
                "global_head_dim": 8,
                "position_embedding_size": 16,
            },
            "audio_config": None,
        },
    ),
    "llava, llama": ("llava", _llava({"model_type": "llama"})),
    "llava, mistral": ("llava", _llava({"model_type": "mistral", "sliding_window": 5})),
    "llava_next": ("llava_next", _llava({"model_type": "llama"}, image_grid_pinpoints=[[16, 16]])),
    "llava_onevision": ("llava_onevision", _llava({"model_type": "qwen2"}, _SIGLIP, image_grid_pinpoints=[[16, 16]])),
    "vipllava": ("vipllava", _llava({"model_type": "llama"}, vision_feature_layers=[-1])),
    "mistral3": (
        "mistral3",
        _llava({"model_type": "mistral", "sliding_window": 5}, {**_VISION, "model_type": "pixtral", "head_dim": 8}),
    ),
    "internvl": (
        "internvl",
        _llava({"model_type": "qwen2"}, {**_VISION, "image_size": [16, 16], "patch_size": [8, 8]}),
    ),
    "idefics3": ("idefics3", _llava({"model_type": "llama"}, _VISION)),
    "smolvlm": ("smolvlm", _llava({"model_type": "llama"}, _VISION)),
    "aya_vision": ("aya_vision", _llava({"model_type": "cohere2", "logit_scale": 0.4, **_MIX}, _SIGLIP)),
    "qwen2_vl": ("qwen2_vl", {"text_config": {**_TEXT, **_mrope(2, 1, 1)}, "vision_config": _QWEN_VISION}),
    "qwen2_5_vl": ("qwen2_5_vl", {"text_config": {**_TEXT, **_mrope(2, 1, 1)}, "vision_config": _QWEN_VISION}),
    "qwen3_vl": ("qwen3_vl", {"text_config": {**_TEXT, **_mrope(2, 1, 1)}, "vision_config": _QWEN_VISION}),
}
WRAPPERS = {name: case for name, case in _ALL.items() if case[0] in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES}


def model(kind: str, fields: dict[str, Any]) -> Any:
    """A wrapper in float64."""
    config = transformers.AutoConfig.for_model(kind, **copy.deepcopy(fields))  # some edit their lists in place
    built = transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.float64).eval()
    fill(built, seed=0)
    return built


def prompt(length: int) -> list[int]:
    """Without token 63, which stands for images."""
    return [(7 + 31 * n) % 63 for n in range(length)]


@cache
def network(name: str) -> HFNetwork:
    return fit(model(*WRAPPERS[name]))[0]
