"""A GGUF file of a few kilobytes, written here, through the real conversion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGUFWriter, TokenType
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoModelForCausalLM, AutoTokenizer

from skipstone.errors import CheckpointError
from skipstone.hf.convert import gguf_to_folder

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WORDS = [*SPECIAL, *sorted(ByteLevel.alphabet()), "ĠĠ"]
HIDDEN, HEADS, WIDE, LAYERS = 32, 4, 64, 2
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


def shapes() -> dict[str, tuple[int, ...]]:
    """Numpy shapes of a llama block's tensors, under their GGUF names."""
    block = {
        "attn_norm": (HIDDEN,),
        "ffn_norm": (HIDDEN,),
        **dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (HIDDEN, HIDDEN)),
        **dict.fromkeys(("ffn_gate", "ffn_up"), (WIDE, HIDDEN)),
        "ffn_down": (HIDDEN, WIDE),
    }
    blocks = {f"blk.{i}.{name}.weight": shape for i in range(LAYERS) for name, shape in block.items()}
    return {"token_embd.weight": (len(WORDS), HIDDEN), "output_norm.weight": (HIDDEN,), **blocks}


def write_gguf(path: Path, scale: float = 0.1) -> None:
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(WIDE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(WORDS))
    add_tokenizer(writer)
    noise = np.random.default_rng(0)
    for name, shape in shapes().items():
        writer.add_tensor(name, (noise.standard_normal(shape) * scale).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tokenizer(writer: GGUFWriter) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(WORDS)
    writer.add_token_types([TokenType.CONTROL if word in SPECIAL else TokenType.NORMAL for word in WORDS])
    writer.add_token_merges(["Ġ Ġ"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)


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
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float16
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert model.config.max_position_embeddings == 128
    assert (folder / "model.safetensors").exists()


def test_the_weights_are_those_of_the_file_rounded_once(folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder)
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
