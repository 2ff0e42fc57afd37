"""A Hugging Face model folder of a few kilobytes: a random llama with a byte-level tokenizer, both made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import GenerationConfig, PreTrainedTokenizerFast

from skipstone.hf.quiet import quiet
from skipstone.testing import tiny_network

SPECIAL = ["<|begin|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
BOS, EOS = 0, 1
MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("a", "n"), ("an", "d"), ("Ġ", "and"), ("Ġ", "a")]
TEMPLATE = (
    "<|begin|>{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def byte_level(*, bos: bool = False) -> Tokenizer:
    """Every byte is a token, a few pairs are merged; with ``bos`` raw text begins with <|begin|>."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*SPECIAL, *alphabet, *(a + b for a, b in MERGES)]
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|begin|> $A", special_tokens=[("<|begin|>", BOS)]
        )
    return tokenizer


def byte_fallback() -> Tokenizer:
    """Like Llama 2's: words begin with ▁, the first of a text loses it, and bytes are tokens <0x..> of their own."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "▁the", "▁a", *"abcdefgh.,é€"]
    tokenizer = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, [], byte_fallback=True, unk_token="<unk>"))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def save_tokenizer(folder: Path, *, bos: bool = False, chat: bool = True) -> None:
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=byte_level(bos=bos), bos_token="<|begin|>", eos_token="<|end|>", pad_token="<|end|>"
    )
    if chat:
        wrapped.chat_template = TEMPLATE
    wrapped.save_pretrained(folder)


def save_model(
    folder: Path,
    *,
    layers: int = 4,
    context: int = 256,
    vocab_size: int = 0,
    generation: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
) -> None:
    vocab = max(len(SPECIAL) + 256 + len(MERGES), vocab_size)
    network = tiny_network(
        "llama",
        layers=layers,
        vocab_size=vocab,
        max_position_embeddings=context,
        agreeing=0.9,
        eos_token_id=EOS,
        **(config or {}),
    )
    network.model.generation_config = GenerationConfig(eos_token_id=EOS, **(generation or {}))
    with quiet():
        network.model.float().save_pretrained(folder)


def tiny_folder(folder: Path, *, bos: bool = False, chat: bool = True, **model: Any) -> Path:
    """``folder`` filled with model and tokenizer; ``model`` are the arguments of ``save_model``."""
    folder.mkdir(parents=True, exist_ok=True)
    save_model(folder, **model)
    save_tokenizer(folder, bos=bos, chat=chat)
    return folder
