"""A GGUF file of some hundred kilobytes, written here: a random llama with a byte-level tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFWriter, TokenType
from tokenizers.pre_tokenizers import ByteLevel

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WORDS = [*SPECIAL, *sorted(ByteLevel.alphabet()), "ĠĠ", "th"]
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


def write_gguf(
    path: Path,
    scale: float = 0.1,
    *,
    arrays: Mapping[str, Any] | None = None,
    theta: float = 1e4,
    lacks: str = "",
    add_bos: bool | None = None,
    **numbers: float | str,
) -> None:
    """``arrays`` are tensors beside the model's own, ``lacks`` is left out; ``numbers`` are metadata (__ for a dot)."""
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(WIDE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_freq_base(theta)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(WORDS))
    for name, value in numbers.items():
        key = f"llama.{name.replace('__', '.')}"
        writer.add_string(key, value) if isinstance(value, str) else writer.add_float32(key, value)
    add_tokenizer(writer)
    if add_bos is not None:
        writer.add_add_bos_token(add_bos)
    noise = np.random.default_rng(0)
    for name, shape in shapes().items():
        values = (noise.standard_normal(shape) * scale).astype(np.float32)
        if name != lacks:
            writer.add_tensor(name, values)
    for name, extra in (arrays or {}).items():
        writer.add_tensor(name, extra)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tokenizer(writer: GGUFWriter) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(WORDS)
    writer.add_token_types([TokenType.CONTROL if word in SPECIAL else TokenType.NORMAL for word in WORDS])
    writer.add_token_merges(["Ġ Ġ", "t h"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
