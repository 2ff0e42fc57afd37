"""Whether two different tokens were a near-tie: their scores computed again in float64 on the same weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..hf.prepare import DecoderNetwork
from ..network import Network
from ..plan import LayerPlan
from ..request import Request
from ..sampling import RowSampler
from ..tree import Topology

Best = dict[int, float]
_TOLERANCE = 1e-3  # of the largest score, in float32
_ROUNDINGS = 8  # in types of fewer digits, so many times the last one


@dataclass(frozen=True)
class Judgement:
    """``gap``: the two tokens' score difference in float64. ``error``: the largest error of their scores as decoded,
    and ``rounding`` what it may be at most.
    """

    gap: float
    error: float
    rounding: float

    @property
    def near_tie(self) -> bool:
        """The gap is at most twice the error measured, and that no more than rounding makes: a fault is no near-tie."""
        return self.gap <= 2 * self.error and self.error <= self.rounding


class NearTieJudge:
    """Judges differences for one network; nothing is widened before the first one comes up."""

    def __init__(self, network: DecoderNetwork) -> None:
        self.network = network

    @cached_property
    def precise(self) -> Network:
        return self.network.in_float64()

    def judge(self, request: Request, before: list[int], tokens: tuple[int, int], arms: tuple[Best, Best]) -> Judgement:
        """``before``: output common to both arms; ``tokens``: what each said next; ``arms``: their recorded scores."""
        exact = self._scores(request, before)
        truth = {token: float(exact[token]) for token in tokens}
        errors = [abs(arm[token] - truth[token]) for arm in arms for token in tokens if token in arm]
        gap, error = abs(truth[tokens[0]] - truth[tokens[1]]), max(errors, default=0.0)
        return Judgement(gap, error, _rounding(self.network.dtype, exact))

    def _scores(self, request: Request, before: list[int]) -> Tensor:
        """[V] processed scores, noise included, of the token after prompt and ``before``."""
        sampler = RowSampler(request.sampling, self.precise.vocab_size, self.precise.device)
        sampler.start(request.prompt)
        sampler.advance(before)
        logits = last_logits(self.precise, [*request.prompt, *before], len(request.prompt))
        return sampler.perturbed(sampler.scores(logits[None], [[]]), [0])[0]


def _rounding(dtype: torch.dtype, exact: Tensor) -> float:
    """How far scores of ``dtype`` may be from ``exact`` ones [V]: as much as a model may be off when it is loaded."""
    largest = float(exact[exact.isfinite()].abs().amax())
    return max(_TOLERANCE, _ROUNDINGS * torch.finfo(dtype).eps) * largest


def last_logits(network: Network, tokens: list[int], prompt_length: int) -> Tensor:
    """[V] logits after ``tokens``."""
    cache = network.new_cache(1, len(tokens))
    cache.reset(0, prompt_length)
    placement = cache.place(Topology.chain(len(tokens)), [0])
    x = torch.tensor([tokens], device=network.device)
    hidden = network.run(x, placement, cache, LayerPlan.full(network.num_layers)).hidden
    return network.logits(hidden[:, -1:])[0, 0]
