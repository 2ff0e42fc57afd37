"""A model's tokenizer, chat template and end-of-text ids, behind the few calls the text layer needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, RequestError

Message = Mapping[str, Any]  # {"role": …, "content": …}


class HFTokenizer:
    """Wraps a transformers tokenizer. Never sets truncation or padding, which threads would share."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    @classmethod
    def load(cls, folder: Path) -> HFTokenizer:
        """Raises CheckpointError where the folder's tokenizer is missing or damaged."""
        import transformers

        loader: Any = transformers.AutoTokenizer
        try:
            return cls(loader.from_pretrained(folder, local_files_only=True, trust_remote_code=False))
        except Exception as error:  # tokenizers raises bare Exception for a damaged file
            reason = str(error).strip().split("\n")[0]
            raise CheckpointError(f"the tokenizer of {folder} cannot be loaded: {reason}") from error

    @property
    def bos_id(self) -> int | None:
        return self.tokenizer.bos_token_id  # type: ignore[no-any-return]

    @property
    def eos_id(self) -> int | None:
        return self.tokenizer.eos_token_id  # type: ignore[no-any-return]

    def encode(self, text: str) -> list[int]:
        """Token ids of raw text, with the special tokens the tokenizer itself adds (BOS once, if any)."""
        return list(self.tokenizer(text, return_attention_mask=False, verbose=False)["input_ids"])

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation in the model's chat template, ready for the assistant's turn.

        Raises RequestError where the model has no template or the template refuses the messages.
        """
        if not getattr(self.tokenizer, "chat_template", None):
            raise RequestError("this model has no chat template: give a plain prompt instead of messages")
        try:
            text = self.tokenizer.apply_chat_template(
                [dict(message) for message in messages], tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # templates are programs and raise what they like
            raise RequestError(f"the model's chat template refuses these messages: {error}") from error
        return list(self.tokenizer(text, add_special_tokens=False, return_attention_mask=False)["input_ids"])

    def decode(self, tokens: Sequence[int]) -> str:
        """Text without special tokens; a character whose bytes are incomplete comes out as U+FFFD."""
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text
