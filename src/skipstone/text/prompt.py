"""What a model can be asked to continue: raw text, a list of chat messages, or a list of token ids."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import RequestError
from ..hf.tokenizer import Message

__all__ = ["Message", "Prompt", "as_chat", "token_ids", "valid_messages", "valid_text"]

Prompt = str | Sequence[Message] | Sequence[int]


def valid_text(text: str) -> str:
    """``text`` itself. Raises RequestError where it holds half a character, which no encoding can write."""
    found = re.search("[\ud800-\udfff]", text)
    if found:
        raise RequestError(
            f"the prompt has a lone surrogate (\\u{ord(found[0]):04x}) at character {found.start() + 1}, which is not "
            "text: was it read in the wrong encoding? Use UTF-8"
        )
    return text


def token_ids(prompt: Sequence[Any]) -> list[int] | None:
    """The token ids a prompt consists of; None where it is something else. Raises RequestError for no sequence."""
    if not isinstance(prompt, Sequence):
        raise _no_prompt(f"this is {type(prompt).__name__}")
    whole = not isinstance(prompt, bytes | bytearray)
    ids = whole and all(isinstance(item, int) and not isinstance(item, bool) for item in prompt)
    return list(prompt) if ids else None


def valid_messages(prompt: Sequence[Any]) -> list[Message]:
    """The messages a prompt consists of. Raises RequestError where one has no role, or is not a message at all."""
    if isinstance(prompt, bytes | bytearray | Mapping):
        raise _no_prompt(f"this is {type(prompt).__name__}")
    for number, item in enumerate(prompt, 1):
        if not isinstance(item, Mapping):
            raise _no_prompt(f"item {number} is {type(item).__name__}")
        if not isinstance(item.get("role"), str):
            raise _no_prompt(f"message {number} has no role")
        if isinstance(item.get("content"), str):
            valid_text(item["content"])
    return list(prompt)


def _no_prompt(what: str) -> RequestError:
    return RequestError(
        f'{what}: a prompt is text, a list of messages {{"role": …, "content": …}}, or a list of token ids'
    )


def as_chat(prompt: Prompt, system: str | None = None) -> Prompt:
    """A text as the user's message, ``system`` first unless there is a system message. Token ids stay as they are."""
    if not isinstance(prompt, str) and token_ids(prompt) is not None:
        return prompt
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else valid_messages(prompt)
    if system is not None and messages[0]["role"] != "system":
        messages = [{"role": "system", "content": system}, *messages]
    return messages
