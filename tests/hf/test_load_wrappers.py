"""Multimodal models run text-only: the right class is found, and the text part gives the model's own logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tiny_folder import save_tokenizer

import skipstone
from skipstone.errors import SkipstoneError
from skipstone.hf.quiet import quiet

TEXT: dict[str, Any] = {
    **{"vocab_size": 269, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "head_dim": 8},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128},
    **{"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1},
}
VISION: dict[str, Any] = {
    **{"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
    **{"image_size": 16, "patch_size": 8},
}
WRAPPERS: dict[str, dict[str, Any]] = {
    "gemma3": {"text_config": {**TEXT, "sliding_window": 8}, "vision_config": VISION},
    "llava": {
        "text_config": {**TEXT, "model_type": "llama"},
        "vision_config": {**VISION, "model_type": "clip_vision_model"},
        "image_token_index": 5,
    },
    "mistral3": {
        "text_config": {**TEXT, "model_type": "mistral"},
        "vision_config": {**VISION, "model_type": "pixtral", "head_dim": 8},
    },
}


def wrapper_folder(kind: str, folder: Path) -> Path:
    config = transformers.AutoConfig.for_model(kind, **WRAPPERS[kind])
    torch.manual_seed(0)
    with quiet():
        transformers.AutoModelForImageTextToText.from_config(config).float().save_pretrained(folder)
    save_tokenizer(folder)
    return folder


@pytest.mark.parametrize("kind", WRAPPERS)
def test_a_wrapper_generates_text_with_its_text_part(kind: str, tmp_path: Path) -> None:
    said: list[str] = []
    model = skipstone.load(wrapper_folder(kind, tmp_path / kind), progress=said.append, dtype="float64")
    assert said == [f"a {kind} model takes text only here"]
    plain = model.generate("the and a", max_new_tokens=10)
    assert model.generate("the and a", max_new_tokens=10, drafter="exit:layer=1").tokens == plain.tokens


def test_a_wrapper_whose_text_part_cannot_be_run_is_told_why(tmp_path: Path) -> None:
    text = {**TEXT, "num_local_experts": 2, "intermediate_size_mlp": 48}
    vision = {**VISION, "intermediate_size": 64, "vision_output_dim": 16, "projector_input_dim": 16}
    vision["projector_output_dim"] = 16
    config = transformers.AutoConfig.for_model("llama4", text_config=text, vision_config=vision)
    with quiet():
        transformers.AutoModelForImageTextToText.from_config(config).float().save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    with pytest.raises(SkipstoneError) as caught:
        skipstone.load(tmp_path, progress=lambda line: None)
    assert "\n" not in str(caught.value)
