"""Generation settings with Hugging Face names, checked against each other, into the engine's terms."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..errors import RequestError, UsageError, did_you_mean
from ..hf.reason import shown
from ..sampling import Constraint, SamplingParams


@dataclass(frozen=True)
class GenerationSettings:
    """How to generate. None leaves a choice to the model's generation_config, and to greedy decoding after that.

    ``do_sample`` need not be given: a temperature above 0 samples, 0 or none decodes greedily.
    """

    max_new_tokens: int = 128
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] | None = None
    seed: int | None = None  # None draws one, which the result names
    eos_token_id: int | Sequence[int] | None = None  # None: the model's own; an empty list: never end at EOS
    stop_strings: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] = ()
    num_return_sequences: int = 1
    logprobs: int | None = None  # best alternatives beside each token's own log-probability
    constraint: Constraint | None = None

    def __post_init__(self) -> None:
        """Raises UsageError, RequestError for numbers no model could be asked for."""
        for name, kinds in _NUMBERS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, kinds):
                raise UsageError(f"{name}={value!r} is not {'a whole number' if kinds in _WHOLE else 'a number'}")
        for name, (low, high, want) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise RequestError(f"{name}={value} is out of range: use {want}")
        self._check_kinds()
        given = {name: getattr(self, name) for name in _SAMPLING}
        SamplingParams(**{name: value for name, value in given.items() if value is not None})
        self._check_ends()

    def _check_kinds(self) -> None:
        """What is neither number nor text."""
        if self.do_sample not in (None, True, False):
            raise UsageError(f"do_sample={self.do_sample!r} is neither True nor False")
        biases = self.logit_bias if self.logit_bias is not None else {}
        if not isinstance(biases, Mapping) or not all(_is_bias(*entry) for entry in biases.items()):
            raise UsageError(f"logit_bias={self.logit_bias!r} is not a mapping of token ids to numbers")
        if self.constraint is not None and not callable(getattr(self.constraint, "mask", None)):
            raise UsageError(f"constraint={self.constraint!r} has no method mask: give a skipstone.sampling.Constraint")
        for name, single in (("eos_token_id", int), ("stop_token_ids", Iterable), ("stop_strings", str)):
            value = getattr(self, name)
            if value is None or (isinstance(value, single) and single is not Iterable):
                continue
            if not isinstance(value, Iterable):
                raise UsageError(f"{name}={value!r} is not a list")
            object.__setattr__(self, name, tuple(value))  # some iterables can be read once only

    def _check_ends(self) -> None:
        if not all(isinstance(string, str) and string for string in self.stops()):
            given = self.stop_strings if isinstance(self.stop_strings, str) else list(self.stops())
            raise UsageError(f"stop_strings={given!r}: each must be text and not empty")
        eos = [self.eos_token_id] if isinstance(self.eos_token_id, int) else self.eos_token_id or ()
        for token in (*eos, *self.stop_token_ids):
            if isinstance(token, bool) or not isinstance(token, int):
                raise UsageError(f"{token!r} is not a token id: eos_token_id and stop_token_ids take whole numbers")

    @classmethod
    def of(cls, **given: Any) -> GenerationSettings:
        """Settings from keyword arguments. Raises UsageError for an unknown one."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise UsageError(f'generate has no argument "{name}": {did_you_mean(name, known)}')
        return cls(**given)

    def sampling(self, defaults: Mapping[str, Any]) -> SamplingParams:
        """Sampling numbers; ``defaults`` is the model's generation_config. Raises UsageError, RequestError."""
        self._check_sampling(defaults)
        penalty = self._or_default("repetition_penalty", defaults)
        values: dict[str, Any] = {
            "repetition_penalty": penalty or 1.0,
            "presence_penalty": self.presence_penalty,
            "frequency_penalty": self.frequency_penalty,
            "logit_bias": dict(self.logit_bias or {}),
            "seed": secrets.randbits(32) if self.seed is None else self.seed,
        }
        if self._samples(defaults):
            names = ("temperature", "top_k", "top_p", "min_p")
            values |= {name: self._or_default(name, defaults) for name in names}
            values["temperature"] = 1.0 if values["temperature"] is None else values["temperature"]
        return SamplingParams(**{name: _number(name, value) for name, value in values.items() if value is not None})

    def _or_default(self, name: str, defaults: Mapping[str, Any]) -> Any:
        given = getattr(self, name)
        value = given if given is not None else defaults.get(name)
        if isinstance(value, bool) or not isinstance(value, _NUMBERS[name]):
            raise UsageError(
                f"the model's generation_config asks for {name}={shown(value)}, not a number: give {name}=…"
            )
        return value

    def _samples(self, defaults: Mapping[str, Any]) -> bool:
        if self.do_sample is not None:
            return self.do_sample
        if self.temperature is not None:
            return self.temperature > 0
        return bool(defaults.get("do_sample"))

    def _check_sampling(self, defaults: Mapping[str, Any]) -> None:
        if self.do_sample and self.temperature == 0:
            raise UsageError("do_sample=True and temperature=0 contradict each other: leave one out")
        if self.do_sample is False and self.temperature:
            raise UsageError(f"do_sample=False and temperature={self.temperature} contradict each other: leave one out")
        given = [name for name in ("top_k", "top_p", "min_p") if getattr(self, name) is not None]
        if given and not self._samples(defaults):
            raise UsageError(
                f"{given[0]} has no effect on greedy decoding: add a temperature above 0, or do_sample=True"
            )

    def eos_ids(self, defaults: Mapping[str, Any], tokenizer_eos: int | None) -> frozenset[int]:
        """End-of-text ids: given ones, else the generation_config's, else the tokenizer's."""
        for chosen in (self.eos_token_id, defaults.get("eos_token_id"), tokenizer_eos):
            if chosen is not None:
                return frozenset([chosen] if isinstance(chosen, int) else chosen)
        return frozenset()

    def stops(self) -> tuple[str, ...]:
        """Stop strings."""
        return (self.stop_strings,) if isinstance(self.stop_strings, str) else tuple(self.stop_strings or ())


def _is_bias(token: Any, bias: Any) -> bool:
    numbers = isinstance(token, int) and isinstance(bias, int | float)
    return numbers and not isinstance(token, bool) and not isinstance(bias, bool)


def _number(name: str, value: Any) -> Any:
    """A whole number where a fraction could stand may be too large for either."""
    if not isinstance(value, int) or abs(value) < 2**63 or name in ("top_k", "seed"):
        return value
    try:
        return float(value)
    except OverflowError:
        raise RequestError(f"{name}={shown(value)} is out of range: it is larger than any float") from None


_Optional = type(None)
_WHOLE: tuple[Any, ...] = (int, (int, _Optional))
_NUMBERS: Mapping[str, Any] = {
    "max_new_tokens": int,
    "temperature": (int, float, _Optional),
    "top_k": (int, _Optional),
    "top_p": (int, float, _Optional),
    "min_p": (int, float, _Optional),
    "repetition_penalty": (int, float, _Optional),
    "presence_penalty": (int, float),
    "frequency_penalty": (int, float),
    "seed": (int, _Optional),
    "num_return_sequences": int,
    "logprobs": (int, _Optional),
}
_SAMPLING = (
    *("temperature", "top_k", "top_p", "min_p"),
    *("repetition_penalty", "presence_penalty", "frequency_penalty"),
)
# seeds as torch takes them
_RANGES: Mapping[str, tuple[float, float, str]] = {
    "max_new_tokens": (1, math.inf, "1 or more"),
    "seed": (-(2**63), 2**64 - 1, "-2^63 to 2^64 - 1"),
    "num_return_sequences": (1, math.inf, "1 or more"),
    "logprobs": (0, math.inf, "0 or more"),
}
