"""A model's tokenizer, chat template and end-of-text ids, behind the few calls the text layer needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, RequestError
from .quiet import quiet
from .reason import reason, told_as

Message = Mapping[str, Any]  # {"role": …, "content": …}


_FILES = (
    *("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt", "merges.txt"),
    *("spiece.model", "sentencepiece.bpe.model"),
)
_NO_LIMIT = int(1e30)  # as transformers writes it


class HFTokenizer:
    """Wraps a transformers tokenizer. Never sets truncation or padding, which threads would share."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    @classmethod
    def load(cls, folder: Path) -> HFTokenizer:
        """Raises CheckpointError where the folder's tokenizer is missing or damaged."""
        import transformers

        loader: Any = transformers.AutoTokenizer
        if not cls.lies_in(folder):
            raise CheckpointError(f"{folder} has no tokenizer.json: fetch the model's tokenizer files too")
        with quiet(), told_as(CheckpointError, f"the tokenizer of {folder} cannot be loaded", memory=True):
            found = cls(loader.from_pretrained(folder, local_files_only=True, trust_remote_code=False))
            found._try()
        return found

    def _try(self) -> None:
        """Whatever a damaged tokenizer raises when it is used, it raises now."""
        if not isinstance(self.tokenizer.model_max_length, int | float):
            self.tokenizer.model_max_length = _NO_LIMIT  # only ever warned of; texts end with the model's context
        self.decode(self.encode("a 1"))
        _ = self.bos_id, self.eos_id, self.has_chat

    @staticmethod
    def lies_in(folder: Path) -> bool:
        """Whether a folder has a tokenizer at all."""
        return any((folder / name).is_file() for name in _FILES)

    @property
    def bos_id(self) -> int | None:
        return self.tokenizer.bos_token_id  # type: ignore[no-any-return]

    @property
    def eos_id(self) -> int | None:
        return self.tokenizer.eos_token_id  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """Tokens that have a text, added ones included."""
        return len(self.tokenizer)

    def token(self, token: int) -> str:
        """How the vocabulary writes a token; empty where it has none of that number."""
        return str(self.tokenizer.convert_ids_to_tokens(token) or "")

    @property
    def has_chat(self) -> bool:
        """Whether the model has a chat template."""
        return bool(getattr(self.tokenizer, "chat_template", None))

    def encode(self, text: str) -> list[int]:
        """Token ids of raw text, with the special tokens the tokenizer itself adds.

        BOS comes once, also before a text that begins with it, as a rendered chat template does.
        """
        bos = self.tokenizer.bos_token
        return self._ids(text, special=not (bos and text.startswith(bos)))

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation in the model's chat template, ready for the assistant's turn.

        A template is a program that comes with the model: it runs in a sandbox and reaches nothing, but nobody stops it
        from counting very far.
        Raises RequestError where the model has no template or the template refuses the messages.
        """
        if not self.has_chat:
            raise RequestError("this model has no chat template: give a plain prompt instead of messages")
        try:
            text = self.tokenizer.apply_chat_template(
                [dict(message) for message in messages], tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # templates are programs and raise what they like
            raise RequestError(f"the model's chat template refuses these messages: {reason(error)}") from error
        return self._ids(text, special=False)

    def _ids(self, text: str, special: bool) -> list[int]:
        given = self.tokenizer(text, add_special_tokens=special, return_attention_mask=False, verbose=False)
        return list(given["input_ids"])

    @property
    def special(self) -> dict[str, int]:
        """Ids of special tokens by their own text, which ``decode`` leaves out."""
        added = self.tokenizer.added_tokens_decoder.items()
        return {token.content: number for number, token in added if token.special}

    def decode(self, tokens: Sequence[int]) -> str:
        """Text without special tokens; a character whose bytes are incomplete comes out as U+FFFD."""
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text
