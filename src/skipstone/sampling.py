"""From logits to processed scores: penalties, bias, constraint, temperature, cuts; each a function of the text before.

Processors see the row's history *and* the path of drafted tokens that leads to a node, so that verification scores a
node exactly as plain decoding would score it there. Order (as in transformers): repetition penalty, presence and
frequency penalties, logit bias, constraint, temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from . import cuts, noise
from .errors import ConstraintError, RequestError
from .noise import Stream
from .winners import top, winners

# beyond these numbers float32 scores overflow, and the error would blame the model
_SMALLEST_TEMPERATURE = 1e-20
_LARGEST = 1e9

_GUESSED = 256  # a draft chooses from so many at most


class Constraint(Protocol):
    """Which tokens may come next: a grammar, a list of allowed tokens. One object serves one row."""

    def mask(self, path: Sequence[int]) -> Tensor:
        """[V] bool: what may follow the advanced tokens and then ``path``. Leaves no trace; ``path`` may be invalid."""
        ...

    def advance(self, tokens: Sequence[int]) -> None:
        """``tokens`` became final."""
        ...

    def fork(self) -> Constraint:
        """An independent copy in the same state, for another row."""
        ...


class Processors(Protocol):
    """Takes the place of every step from logits to scores: another library's own ones. One object serves one row."""

    def scores(self, logits: Tensor, paths: Sequence[Sequence[int]], sampler: RowSampler) -> Tensor:
        """Processed target scores [N, V], at least of the nodes that the sampler's own choices lead to."""
        ...

    def draft_scores(self, logits: Tensor, path: Sequence[int]) -> Tensor:
        """Scores [V] to guess by what follows ``path``, which the target may never say. Leaves no trace."""
        ...

    def advance(self, tokens: Sequence[int]) -> None:
        """``tokens`` became final."""
        ...


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen. The defaults are greedy decoding; every neutral value switches its step off.

    Raises RequestError on numbers outside their range.
    """

    temperature: float = 0.0  # 0 is greedy
    top_k: int = 0  # 0 keeps all
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0  # over prompt and output
    presence_penalty: float = 0.0  # over the output
    frequency_penalty: float = 0.0  # over the output, times the count
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        warm = _SMALLEST_TEMPERATURE <= self.temperature < math.inf  # below it scores overflow
        _require(
            self.temperature == 0 or warm, "temperature", self.temperature, "0 (greedy), or a number from 1e-20 up"
        )
        _require(self.top_k >= 0, "top_k", self.top_k, "0 (off) or a positive whole number")
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "above 0 and at most 1 (off)")
        _require(0 <= self.min_p <= 1, "min_p", self.min_p, "from 0 (off) to 1")
        rho = self.repetition_penalty
        _require(1 / _LARGEST <= rho <= _LARGEST, "repetition_penalty", rho, "a positive number up to 1e9; 1 is off")
        for name in ("presence_penalty", "frequency_penalty"):
            _require(abs(getattr(self, name)) <= _LARGEST, name, getattr(self, name), "a number from -1e9 to 1e9")
        for token, bias in self.logit_bias.items():
            allowed = token >= 0 and (bias == -math.inf or abs(bias) <= _LARGEST)
            _require(allowed, "logit_bias", {token: bias}, "token ids with numbers from -1e9 to 1e9, or -inf to ban")

    @property
    def penalised(self) -> bool:
        return self.repetition_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0


def _require(ok: bool, name: str, given: object, want: str) -> None:
    if not ok:
        raise RequestError(f"{name}={given!r} is out of range: use {want}")


def said_by(params: SamplingParams, logits: Tensor, positions: Sequence[int]) -> list[int]:
    """What ``logits`` [N, V] after ``positions`` [N] of a text would have said, by temperature and the text's noise."""
    if params.temperature == 0:
        return logits.argmax(-1).tolist()
    scores = widened(logits) / params.temperature
    keys = [noise.key(params.seed, position + 1, Stream.TOKEN) for position in positions]
    return [int(winners(row, 1, key)[1]) for row, key in zip(scores, keys, strict=True)]


class RowSampler:
    """The sampling state of one row: its history as counts, its constraint, the key of its noise.

    ``length`` is the number of tokens in the row, which is also the position of the next one. Given ``processors``,
    all that is left to ``params`` is the seed and whether to sample at all.
    """

    def __init__(
        self,
        params: SamplingParams,
        vocab_size: int,
        device: torch.device,
        constraint: Constraint | None = None,
        processors: Processors | None = None,
    ) -> None:
        too_big = [t for t in params.logit_bias if t >= vocab_size]
        if too_big:
            raise RequestError(f"logit_bias names token {too_big[0]}: the model's vocabulary ends at {vocab_size - 1}")
        self.params = params
        self.constraint = constraint
        self.processors = processors
        self.length = 0
        self.vocab_size = vocab_size
        self.device = device
        self._in_prompt = self._zeros(torch.bool) if params.penalised else None
        self._output_count = self._zeros(torch.int32) if params.penalised else None
        self._biased = torch.tensor(list(params.logit_bias), dtype=torch.long, device=device)
        self._bias = torch.tensor(list(params.logit_bias.values()), dtype=torch.float64, device=device)

    def _zeros(self, dtype: torch.dtype) -> Tensor:
        return torch.zeros(self.vocab_size, dtype=dtype, device=self.device)

    @property
    def greedy(self) -> bool:
        return self.params.temperature == 0

    @property
    def untouched(self) -> bool:
        """Whether processed scores are the logits themselves, as far as their order goes."""
        return self.greedy and self.constraint is None and not self.params.penalised and not self.params.logit_bias

    def start(self, prompt: Sequence[int]) -> None:
        """Take in the prompt."""
        self.length += len(prompt)
        if self._in_prompt is not None:
            self._in_prompt[torch.tensor(prompt, device=self.device)] = True

    def advance(self, tokens: Sequence[int]) -> None:
        """``tokens`` [A] became final output."""
        self.length += len(tokens)
        if self._output_count is not None:
            self._output_count += self._count(tokens)
        if self.constraint is not None:
            self.constraint.advance(tokens)
        if self.processors is not None:
            self.processors.advance(tokens)

    def _count(self, tokens: Sequence[int]) -> Tensor:
        index = torch.tensor(tokens, dtype=torch.long, device=self.device)
        return torch.bincount(index, minlength=self.vocab_size).to(torch.int32)

    def noise(self, depth: int, stream: Stream = Stream.TOKEN) -> Tensor:
        """[V] float32: the row's Gumbel noise for the token ``depth`` places after the next one."""
        return noise.gumbel(self.params.seed, self.length + depth, self.vocab_size, stream=stream, device=self.device)

    def uniform(self, depth: int, stream: Stream) -> float:
        return noise.uniform(self.params.seed, self.length + depth, stream)

    def scores(self, logits: Tensor, paths: Sequence[Sequence[int]]) -> Tensor:
        """Processed scores [N, V] of nodes with ``logits`` [N, V], reached by ``paths[n]`` from the row's history.

        At least float32. Temperature 0 leaves temperature and cuts out: they cannot change the best token.
        """
        if self.processors is not None:
            return self.processors.scores(logits, paths, self)
        return self._processed(logits, paths, sort=True)

    def _processed(self, logits: Tensor, paths: Sequence[Sequence[int]], sort: bool) -> Tensor:
        """``sort``: look at the whole vocabulary where a nucleus needs it."""
        scores = widened(logits)
        if self.untouched:
            return scores
        scores = self._penalise(scores, paths)
        if len(self._biased):
            scores = scores.index_add(-1, self._biased, self._bias.to(scores.dtype).expand(len(scores), -1))
        if self.constraint is not None:
            allowed = torch.stack([self._mask(self.constraint, path) for path in paths]).to(scores.device)
            scores = torch.where(allowed, scores, -math.inf)
        return scores if self.greedy else self._cut(scores / self.params.temperature, sort)

    def draft_scores(self, logits: Tensor, path: Sequence[int]) -> Tensor:
        """Processed scores [V] of a guess at what follows ``path``, from a draft's ``logits`` [V].

        One from beyond the best few hundred tokens would be wrong most of the time anyway, so the rest is cut off.
        """
        if self.processors is not None:
            return self.processors.draft_scores(logits, path)
        return self._processed(logits[None], [path], sort=False)[0]

    def perturbed(self, scores: Tensor, depths: Sequence[int], stream: Stream = Stream.TOKEN) -> Tensor:
        """Processed scores [N, V] plus the noise of each node's depth; argmax of a row is its sampled token."""
        if self.greedy:
            return scores
        return scores + torch.stack([self.noise(depth, stream) for depth in depths])

    def said(self, logits: Tensor, positions: Sequence[int]) -> list[int]:
        """What ``logits`` [N, V] after earlier ``positions`` [N] would have said, by temperature and noise.

        A judgement of a plan on text long chosen: penalties, constraint and cuts of back then are left out.
        """
        return said_by(self.params, logits, positions)

    def best(self, scores: Tensor, depth: int, count: int = 1, stream: Stream = Stream.TOKEN) -> tuple[Tensor, Tensor]:
        """The best ``count`` of what ``perturbed`` makes of processed scores [V]: their values and tokens [count]."""
        if self.greedy:
            return top(scores, count)
        return winners(scores, count, noise.key(self.params.seed, self.length + depth, stream))

    def _mask(self, constraint: Constraint, path: Sequence[int]) -> Tensor:
        mask = constraint.mask(path)
        if mask.dtype != torch.bool or mask.shape != (self.vocab_size,):
            given = f"{mask.dtype} of shape {tuple(mask.shape)}"
            raise ConstraintError(f"the constraint's mask is {given}: it must be bool of shape ({self.vocab_size},)")
        return mask

    def _penalise(self, scores: Tensor, paths: Sequence[Sequence[int]]) -> Tensor:
        if self._in_prompt is None or self._output_count is None:
            return scores
        params = self.params
        counts = self._output_count + torch.stack([self._count(path) for path in paths])
        seen = self._in_prompt | (counts > 0)
        rho = params.repetition_penalty
        scores = torch.where(seen, torch.where(scores > 0, scores / rho, scores * rho), scores)
        return scores - (params.presence_penalty * (counts > 0) + params.frequency_penalty * counts)

    def _cut(self, scores: Tensor, sort: bool) -> Tensor:
        params = self.params
        if 0 < params.top_k < self.vocab_size:
            scores = cuts.top_k(scores, params.top_k)
        most = self.vocab_size if sort else params.top_k or _GUESSED
        if params.top_p < 1:
            scores = cuts.top_p(scores, params.top_p, most)
        elif most < self.vocab_size and not params.top_k:
            scores = cuts.top_k(scores, most)
        return cuts.min_p(scores, params.min_p) if params.min_p > 0 else scores


def widened(logits: Tensor) -> Tensor:
    """``logits`` in float32 at least."""
    return logits if logits.dtype == torch.float64 else logits.float()


def derived_seed(seed: int, sample: int) -> int:
    """The seed of the ``sample``-th of several samples of one prompt; the first keeps ``seed``."""
    return seed if sample == 0 else noise.key(seed, sample, Stream.FORK)
