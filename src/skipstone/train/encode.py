"""From samples to tokens with labels: -100 where nothing is to be predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError
from ..hf.reason import reason
from ..hf.tokenizer import HFTokenizer
from .early_exit_loss import IGNORED
from .texts import Answered, Chat, Sample, Text


@dataclass(frozen=True)
class Document:
    """Tokens of one sample and their labels, as long as each other. A ``divisible`` one may go on in another row."""

    tokens: tuple[int, ...]
    labels: tuple[int, ...]
    divisible: bool

    @property
    def labelled(self) -> int:
        """How many tokens are predicted; the first never is, nothing lies before it."""
        return sum(label != IGNORED for label in self.labels[1:])

    def part(self, start: int, stop: int) -> Document:
        return Document(self.tokens[start:stop], self.labels[start:stop], self.divisible)


@dataclass(frozen=True)
class Encoder:
    """Texts end with the tokenizer's end-of-text token, where it has one; chats as the chat template ends them."""

    tokenizer: HFTokenizer

    def __call__(self, sample: Sample) -> Document:
        """Raises UsageError for a chat that the model's template cannot render."""
        if isinstance(sample, Text):
            return self._text(sample)
        if isinstance(sample, Answered):
            return self._answered(sample)
        return self._chat(sample)

    def _text(self, sample: Text) -> Document:
        if not sample.text.strip():
            return Document((), (), True)
        tokens = (*self.tokenizer.encode(sample.text), *self._end())
        return Document(tokens, tokens, True)

    def _answered(self, sample: Answered) -> Document:
        """As a chat of two messages where the model has a template, else one text behind the other."""
        if not sample.response.strip():
            return Document((), (), False)
        if self.tokenizer.has_chat:
            asked, said = {"role": "user", "content": sample.prompt}, {"role": "assistant", "content": sample.response}
            return self._chat(Chat((asked, said)))
        prompt = self.tokenizer.encode(sample.prompt)
        response = [*self._ids(sample.response), *self._end()]
        return Document((*prompt, *response), (*[IGNORED] * len(prompt), *response), False)

    def _chat(self, sample: Chat) -> Document:
        """Each of the assistant's messages is what the template adds to the text when it comes in."""
        tokens: list[int] = []
        labels: list[int] = []
        done = ""
        for number, message in enumerate(sample.messages, 1):
            if message["role"] == "assistant":
                text = self._rendered(sample.messages[:number])
                earlier = sample.messages[: number - 1]
                asked = self._rendered(earlier, ready=True) if earlier else _before(text, message["content"])
                done = self._add(tokens, labels, (done, asked), learn=False)
                done = self._add(tokens, labels, (done, text), learn=_speaks(message))
        return Document(tuple(tokens), tuple(labels), False)

    def _add(self, tokens: list[int], labels: list[int], texts: tuple[str, str], learn: bool) -> str:
        """Tokens of what the second text has more than the first, which it must begin with."""
        done, text = texts
        if not text.startswith(done):
            raise UsageError(
                "the model's chat template rewrites earlier messages when one is added, so that what the assistant "
                "says cannot be told apart: give prompt and response instead of messages, or plain text"
            )
        new = self._ids(text.removeprefix(done))
        tokens += new
        labels += new if learn else [IGNORED] * len(new)
        return text

    def _rendered(self, messages: Sequence[Any], ready: bool = False) -> str:
        if not self.tokenizer.has_chat:
            raise UsageError("the model has no chat template: give prompt and response, or text, instead of messages")
        try:
            text: str = self.tokenizer.tokenizer.apply_chat_template(
                [dict(message) for message in messages], tokenize=False, add_generation_prompt=ready
            )
        except Exception as error:  # templates are programs and raise what they like
            raise UsageError(f"the model's chat template refuses a chat of the data: {reason(error)}") from error
        return text

    def _ids(self, text: str) -> list[int]:
        given = self.tokenizer.tokenizer(text, add_special_tokens=False, return_attention_mask=False, verbose=False)
        return list(given["input_ids"])

    def _end(self) -> tuple[int, ...]:
        return () if self.tokenizer.eos_id is None else (self.tokenizer.eos_id,)


def _speaks(message: Mapping[str, Any]) -> bool:
    """An empty answer teaches nothing but to be silent; one that calls a tool has more than its content."""
    return bool(message["content"].strip()) or bool(message.keys() - {"role", "content"})


def _before(text: str, content: str) -> str:
    """What the template itself writes before the first message; all, where the message is not found as it was given."""
    found = text.rfind(content.strip())  # a template's own words may hold it too
    return text[:found] if found >= 0 else text
