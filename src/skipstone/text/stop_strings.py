"""Stop strings: found in the text, wherever its tokens break, and cut out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..stopping import Stop
from .detokenizer import Decode


@dataclass(frozen=True)
class StopStrings:
    """A stop rule that ends a text with the token that completes any of ``strings``."""

    strings: tuple[str, ...]
    decode: Decode

    def clip(self, output: Sequence[int], new: Sequence[int]) -> Stop | None:
        """Decodes only as much of ``output`` as could hold the beginning of a stop string.

        Token by token, as plain decoding would: bytes that are no character may decode otherwise once more follow.
        """
        tail = list(output[-self._reach :])
        counts = range(1, len(new) + 1)
        return next((Stop(n, "stop_string") for n in counts if self._ends([*tail, *new[:n]])), None)

    @property
    def _reach(self) -> int:
        # a token may be one byte of a character, or a special token without text
        return 4 * max(map(len, self.strings)) + 16

    def _ends(self, tokens: list[int]) -> bool:
        text = self.decode(tokens)
        return any(string in text for string in self.strings)


def cut(text: str, strings: Sequence[str]) -> str:
    """``text`` up to the first stop string in it."""
    found = [at for string in strings if (at := text.find(string)) >= 0]
    return text[: min(found)] if found else text


def safe_length(text: str, strings: Sequence[str]) -> int:
    """How much of ``text`` cannot turn out to be the beginning of a stop string."""
    held = max((_overlap(text, string) for string in strings), default=0)
    return len(text) - held


def _overlap(text: str, string: str) -> int:
    """The longest end of ``text`` that begins ``string``."""
    return next((n for n in range(min(len(string), len(text)), 0, -1) if text.endswith(string[:n])), 0)
