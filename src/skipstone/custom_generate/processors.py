"""Which of transformers' processors and criteria we know to look at one row alone and to remember nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import transformers

# these give the same answer for a row wherever it stands
_PURE = {
    *("MinLengthLogitsProcessor", "MinNewTokensLengthLogitsProcessor", "NoRepeatNGramLogitsProcessor"),
    *("SequenceBiasLogitsProcessor", "NoBadWordsLogitsProcessor", "SuppressTokensLogitsProcessor"),
    *("SuppressTokensAtBeginLogitsProcessor", "ForcedBOSTokenLogitsProcessor", "ForcedEOSTokenLogitsProcessor"),
    *("InfNanRemoveLogitsProcessor", "ExponentialDecayLengthPenalty", "LogitNormalization"),
    *("TemperatureLogitsWarper", "TopHLogitsWarper", "TopKLogitsWarper", "TopPLogitsWarper", "MinPLogitsWarper"),
    *("TypicalLogitsWarper", "EpsilonLogitsWarper", "EtaLogitsWarper"),
    "WatermarkLogitsProcessor",  # seeds its generator from the text at every call
    *("MaxLengthCriteria", "MaxTimeCriteria", "StopStringCriteria", "EosTokenCriteria"),
}


def known(part: Any) -> bool:
    """Whether what ``part`` says of a text depends on that text alone.

    Others can say so of themselves with an attribute ``stateless = True``.
    """
    if _ours(part, {"PrefixConstrainedLogitsProcessor"}):  # what it asks is a function of somebody else
        return bool(getattr(part._prefix_allowed_tokens_fn, "stateless", False))
    return bool(getattr(part, "stateless", False)) or _ours(part, _PURE) or _ours(part, _ROW_OF)


def _ours(part: Any, names: Iterable[str]) -> bool:
    """Whether ``part`` is one of transformers' classes of these names, and not of a subclass."""
    kind = type(part)
    return kind.__name__ in names and kind.__module__.startswith("transformers.")


def for_row(processors: Any, row: int, copies: int) -> Any:
    """The list for one row alone, of ``copies`` adjacent rows for each prompt; all of them must be known."""
    rows = [
        _ROW_OF[type(part).__name__](copy.copy(part), row, row // copies) if _ours(part, _ROW_OF) else part
        for part in processors
    ]
    return transformers.LogitsProcessorList(rows)


def _repetition_penalty(part: Any, row: int, prompt: int) -> Any:
    ignored = getattr(part, "prompt_ignore_length", None)
    if ignored is not None and not isinstance(ignored, int):
        part.prompt_ignore_length = ignored[row : row + 1]
    return part


def _encoder_repetition_penalty(part: Any, row: int, prompt: int) -> Any:
    part.encoder_input_ids = part.encoder_input_ids[prompt : prompt + 1]
    return part


def _encoder_no_repeat(part: Any, row: int, prompt: int) -> Any:
    part.batch_size, part.generated_ngrams = 1, part.generated_ngrams[prompt : prompt + 1]
    return part


def _prefix_constrained(part: Any, row: int, prompt: int) -> Any:
    part._num_beams, part._prefix_allowed_tokens_fn = 1, _OfPrompt(part._prefix_allowed_tokens_fn, prompt)
    return part


@dataclass(frozen=True)
class _OfPrompt:
    """A function of the caller's, for one prompt of several."""

    function: Callable[[int, Any], Any]
    prompt: int

    @property
    def stateless(self) -> bool:
        return bool(getattr(self.function, "stateless", False))

    def __call__(self, _: int, text: Any) -> Any:
        return self.function(self.prompt, text)


# these hold something for each row
_ROW_OF: dict[str, Callable[[Any, int, int], Any]] = {
    "RepetitionPenaltyLogitsProcessor": _repetition_penalty,
    "EncoderRepetitionPenaltyLogitsProcessor": _encoder_repetition_penalty,
    "EncoderNoRepeatNGramLogitsProcessor": _encoder_no_repeat,
    "PrefixConstrainedLogitsProcessor": _prefix_constrained,
}
