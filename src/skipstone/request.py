"""One text to generate: token ids and how to choose, judge and end them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .errors import RequestError
from .sampling import Constraint, Processors, SamplingParams
from .stopping import StopRule


@dataclass(frozen=True)
class Request:
    """``prompt`` and, where a text is taken up again, the tokens already ``generated`` (they count as output).

    ``max_new_tokens`` counts the whole output, ``generated`` included; ``stops`` end the text besides it and the
    model's context. ``logprobs`` asks for the target's own log-probabilities and that many best alternatives.
    ``processors`` take the place of all that ``sampling`` and ``constraint`` would do to the scores.
    """

    prompt: Sequence[int]
    max_new_tokens: int = 128
    sampling: SamplingParams = field(default_factory=SamplingParams)
    stops: Sequence[StopRule] = ()
    constraint: Constraint | None = None
    processors: Processors | None = None
    logprobs: int | None = None
    generated: Sequence[int] = ()

    def check(self, vocab_size: int, context: int) -> None:
        """Raise RequestError unless a model of this vocabulary and context can serve the request."""
        if not self.prompt:
            raise RequestError("the prompt is empty: give at least one token (a BOS token will do)")
        if self.max_new_tokens < 1:
            raise RequestError(f"max_new_tokens={self.max_new_tokens} generates nothing: use 1 or more")
        if len(self.generated) >= self.max_new_tokens:
            raise RequestError(f"{len(self.generated)} tokens are generated already: max_new_tokens must be more")
        if self.logprobs is not None and not 0 <= self.logprobs <= vocab_size:
            raise RequestError(f"logprobs={self.logprobs} is out of range: use 0 to {vocab_size}")
        tokens = len(self.prompt) + len(self.generated)
        if tokens >= context:
            raise RequestError(
                f"the prompt has {tokens} tokens and the model's context holds {context}: "
                f"shorten the prompt to {context - 1} tokens or fewer"
            )
        for token in (*self.prompt, *self.generated):
            if not 0 <= token < vocab_size:
                raise RequestError(f"token id {token} is not in the model's vocabulary of {vocab_size}")
