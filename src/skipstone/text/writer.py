"""One output text as it grows: tokens in, safe pieces of text out, a Generation at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

from ..row import Emission, FinishReason, Logprob
from ..telemetry import Summary
from .detokenizer import Decode, Detokenizer
from .generation import Generation, Piece
from .stop_strings import cut, safe_length


@dataclass
class Writer:
    """Holds back text that may turn out to begin a stop string; joined pieces are the generation's text.

    ``lossy`` labels all of them.
    """

    index: int
    prompt_tokens: int
    seed: int
    decode: Decode
    stop_strings: tuple[str, ...]
    lossy: str = ""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[Logprob] | None = None
    summary: Summary = field(default_factory=Summary)
    stop_reason: FinishReason | None = None

    def __post_init__(self) -> None:
        self._began = self._last = perf_counter()
        self._detokenizer = Detokenizer(self.decode)
        self._text = ""
        self._written = 0

    def write(self, emission: Emission) -> Piece:
        """Take in one step's tokens. A text that ends with an error has no generation."""
        self.summary.record(emission.record)
        self.tokens.extend(emission.tokens)
        if emission.logprobs is not None:
            self.logprobs = [*(self.logprobs or []), *emission.logprobs]
        self._text += self._detokenizer.push(emission.tokens)
        self._last = perf_counter()
        self.stop_reason = emission.finish_reason
        if emission.error is None and self.stop_reason is not None:
            return self.finish(emission.tokens)
        piece = self._advance(safe_length(self._text, self.stop_strings))
        return Piece(piece, emission.tokens, self.index, lossy=self.lossy)

    def finish(self, tokens: list[int] | None = None) -> Piece:
        """The last piece: all that was held back, and the generation so far (an interrupted text has one, too)."""
        self._text = cut(self._text + self._detokenizer.flush(), self.stop_strings)
        piece = self._advance(len(self._text))
        generation = Generation(
            text=self._text,
            tokens=self.tokens,
            prompt_tokens=self.prompt_tokens,
            stop_reason=self.stop_reason,
            seed=self.seed,
            seconds=self._last - self._began,
            summary=self.summary,
            logprobs=self.logprobs,
            lossy=self.lossy,
        )
        return Piece(piece, tokens or [], self.index, generation, self.lossy)

    def _advance(self, end: int) -> str:
        piece = self._text[self._written : end]
        self._written = max(end, self._written)
        return piece
