"""Text of a growing list of tokens, piece by piece, never splitting a character."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]

_UNFINISHED = "\ufffd"  # what decoders print for bytes that are not yet a character


class Detokenizer:
    """The pieces of ``push`` and ``flush`` joined are ``decode`` of all tokens pushed.

    Each piece is the difference of two decodings that begin at the same earlier token, because tokens decode
    differently at the beginning of a text (leading spaces, byte sequences).
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._anchor = 0  # decodings begin here …
        self._read = 0  # … and text up to here is out

    def push(self, tokens: Sequence[int]) -> str:
        """Take in tokens; returns the text that is complete now, possibly none.

        One by one, so that the text does not depend on how tokens come in blocks: where bytes are no character, some
        tokenizers decode them otherwise once more bytes follow.
        """
        return "".join(map(self._push, tokens))

    def _push(self, token: int) -> str:
        self._tokens.append(token)
        whole = self._decode(self._tokens[self._anchor :])
        return "" if whole.endswith(_UNFINISHED) else self._emit(whole)

    def flush(self) -> str:
        """The rest, unfinished bytes included."""
        return self._emit(self._decode(self._tokens[self._anchor :]))

    def _emit(self, whole: str) -> str:
        known = self._decode(self._tokens[self._anchor : self._read])
        if len(whole) <= len(known):
            return ""
        self._anchor, self._read = self._read, len(self._tokens)
        return whole[len(known) :]
