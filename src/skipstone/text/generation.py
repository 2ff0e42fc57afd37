"""What generating one text gave: the text, its tokens, why it ended, and the figures of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..row import FinishReason, Logprob
from ..telemetry import Summary


@dataclass(frozen=True)
class Generation:
    """``text`` is cut before a stop string; ``tokens`` are all output tokens, the one that ended the text included.

    ``lossy`` says how this is not the text of the model that was loaded ("early exit at layer 8 of 30"), else "".
    """

    text: str
    tokens: list[int]
    prompt_tokens: int
    stop_reason: FinishReason | None  # None: interrupted
    seed: int
    seconds: float  # from admission to the last token, prefill included
    summary: Summary = field(repr=False)
    logprobs: list[Logprob] | None = field(default=None, repr=False)
    lossy: str = ""

    @property
    def finish_reason(self) -> str:
        """OpenAI's terms: "stop" where the text ended itself, "length" at budget or context; else "interrupted"."""
        if self.stop_reason is None:
            return "interrupted"
        return "length" if self.stop_reason in ("length", "context") else "stop"

    @property
    def tokens_per_second(self) -> float:
        return len(self.tokens) / self.seconds if self.seconds else 0.0

    @property
    def mean_accepted_length(self) -> float:
        """M: tokens per verification."""
        return self.summary.mean_accepted_length

    @property
    def acceptance_rate(self) -> float:
        """α: accepted / drafted backbone tokens."""
        return self.summary.acceptance_rate

    @property
    def time(self) -> Mapping[str, float]:
        """Seconds by activity."""
        return asdict(self.summary.timing)

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "tokens": self.tokens,
            "prompt_tokens": self.prompt_tokens,
            "finish_reason": self.finish_reason,
            "stop_reason": self.stop_reason,
            "seed": self.seed,
            "seconds": self.seconds,
            "tokens_per_second": self.tokens_per_second,
            "mean_accepted_length": self.mean_accepted_length,
            "acceptance_rate": self.acceptance_rate,
            "time": dict(self.time),
            "lossy": self.lossy,
        } | ({} if self.logprobs is None else {"logprobs": [asdict(entry) for entry in self.logprobs]})


@dataclass(frozen=True)
class Piece:
    """A bit of streamed text. The last piece of a text carries its ``generation``; ``lossy`` is that of all of them."""

    text: str
    tokens: list[int]
    index: int = 0  # which text of the call
    generation: Generation | None = None
    lossy: str = ""
