"""A tiny GGUF file through the real conversion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_gguf import HIDDEN, WORDS, write_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from skipstone.errors import CheckpointError, UnsupportedModel
from skipstone.hf.convert import gguf_to_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    gguf = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    out = tmp_path_factory.mktemp("model")
    write_gguf(gguf)
    gguf_to_folder(gguf, out)
    return out


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


def test_the_folder_loads_in_float16_with_tied_embeddings(folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    assert model.dtype == torch.float16
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert model.config.max_position_embeddings == 128
    assert (folder / "model.safetensors").exists()


def test_the_weights_are_those_of_the_file_rounded_once(folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    noise = np.random.default_rng(0)
    expected = (noise.standard_normal((len(WORDS), HIDDEN)) * 0.1).astype(np.float32).astype(np.float16)
    assert torch.equal(model.get_input_embeddings().weight, torch.from_numpy(expected))


def test_the_settings_name_the_ends_of_text_and_no_quantisation(folder: Path) -> None:
    generation = json.loads((folder / "generation_config.json").read_text())
    assert (generation["bos_token_id"], generation["eos_token_id"]) == (1, 2)
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())


def test_digits_are_split_off_before_the_spaces_are_grouped(tokenizer: Any) -> None:
    assert tokenizer.tokenize("x  12") == ["x", "ĠĠ", "1", "2"]


@pytest.mark.parametrize(
    "text", ["def f(x):\n\treturn x**2\n\n", "🙂👩‍👩‍👧 é 漢字 \u200b", "  two  ", "\r\n \t", "½ ² ٣"]
)
def test_text_survives_the_round_trip(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_the_chat_template_marks_turns_with_single_tokens(tokenizer: Any) -> None:
    conversation = [{"role": "user", "content": "hi"}]
    text = tokenizer.apply_chat_template(conversation, tokenize=False)
    ids = tokenizer(text, add_special_tokens=False).input_ids
    assert text == "<|im_start|>user\nhi<|im_end|>\n"
    assert (ids[0], ids[-2], len(ids)) == (1, 2, len("user\nhi") + 3)


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"not a model at all" * 100)
    with pytest.raises(CheckpointError, match=r"bad\.gguf: not a readable GGUF model"):
        gguf_to_folder(tmp_path / "bad.gguf", tmp_path / "out")


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "whole.gguf")
    whole = (tmp_path / "whole.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match="not a readable GGUF model"):
        gguf_to_folder(tmp_path / "cut.gguf", tmp_path / "out")


def test_weights_too_large_for_float16_are_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "large.gguf", scale=1e6)
    with pytest.raises(CheckpointError, match=r"not finite in torch\.float16"):
        gguf_to_folder(tmp_path / "large.gguf", tmp_path / "out")


def test_a_file_that_lacks_a_weight_is_refused_with_its_name(tmp_path: Path) -> None:
    write_gguf(tmp_path / "poor.gguf", lacks="blk.1.ffn_up.weight")
    with pytest.raises(CheckpointError, match=r"poor\.gguf lacks 1 weights \(model\.layers\.1\.mlp\.up_proj\.weight"):
        gguf_to_folder(tmp_path / "poor.gguf", tmp_path / "out")


def llama3_factors(theta: float = 5e5, factor: float = 8.0, dim: int = HIDDEN // 4) -> Any:
    """As llama.cpp's converter writes them, from transformers' own frequencies."""
    scaling = {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0}
    scaling |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    long = {"rope_theta": theta, "max_position_embeddings": 2**17}
    config = LlamaConfig(hidden_size=4 * dim, num_attention_heads=4, rope_scaling=scaling, **long)
    plain = 1.0 / theta ** (torch.arange(0, dim, 2) / dim)
    return (plain / LlamaRotaryEmbedding(config).inv_freq).numpy().astype(np.float32)


def scaling_of(folder: Path) -> dict[str, Any]:
    """Rotary scaling, where transformers 5 keeps it and where older ones do."""
    config = AutoModelForCausalLM.from_pretrained(folder).config
    return getattr(config, "rope_parameters", None) or config.rope_scaling or {}


def test_the_rotary_factors_of_llama_3_become_its_scaling_again(tmp_path: Path) -> None:
    write_gguf(tmp_path / "l3.gguf", theta=5e5, arrays={"rope_freqs.weight": llama3_factors()})
    gguf_to_folder(tmp_path / "l3.gguf", tmp_path / "out")
    parameters = scaling_of(tmp_path / "out")
    assert parameters["rope_type"] == "llama3"
    assert parameters["factor"] == pytest.approx(8.0)
    assert (parameters["low_freq_factor"], parameters["high_freq_factor"]) == (1.0, 4.0)


def test_rotary_factors_of_another_kind_are_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "odd.gguf", arrays={"rope_freqs.weight": np.array([1, 3, 2, 9], dtype=np.float32)})
    with pytest.raises(UnsupportedModel, match=r"odd\.gguf has rotary factors of its own"):
        gguf_to_folder(tmp_path / "odd.gguf", tmp_path / "out")


@pytest.mark.parametrize(("kind", "expected"), [("linear", "linear"), ("none", "default")])
def test_linear_rotary_scaling_survives(tmp_path: Path, kind: str, expected: str) -> None:
    write_gguf(tmp_path / "a.gguf", rope__scaling__type=kind, rope__scaling__factor=4.0)
    gguf_to_folder(tmp_path / "a.gguf", tmp_path / "out")
    parameters = scaling_of(tmp_path / "out")
    assert (parameters.get("rope_type", "default"), parameters.get("factor", 4.0)) == (expected, 4.0)


def test_rotary_scaling_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "a.gguf", rope__scaling__type="swirl", rope__scaling__factor=4.0)
    with pytest.raises(UnsupportedModel, match="rotary scaling of the kind swirl"):
        gguf_to_folder(tmp_path / "a.gguf", tmp_path / "out")
