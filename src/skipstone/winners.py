"""The best tokens by scores plus noise, without the noise of tokens that cannot be among them.

Noise is the dearest part of sampling. It has bounds, and its hash alone, at a third of the price, bounds it closely:
blocks of tokens that cannot reach what others have are left out. No choice changes by that.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from . import noise

_BLOCK = 64  # whole vectors, so that a token's noise has the same last bit whoever is drawn beside it
_FEW = 64  # blocks whose noise is cheaper than a closer look
_LOOK = 16  # blocks drawn in such a look
_SEVERAL = 4  # so many times the numbers in question, and more: there, a look at the best of each block first is faster
_SLACK = 1e-3  # far above what rounding does to noise


def winners(scores: Tensor, count: int, key: int) -> tuple[Tensor, Tensor]:
    """Values and tokens [count] of the best of scores [V] + the noise of ``key``, best first."""
    if len(scores) <= _FEW * _BLOCK:
        return _of_all(scores, count, key)
    rest = -len(scores) % _BLOCK
    blocks = (functional.pad(scores, (0, rest), value=-math.inf) if rest else scores).view(-1, _BLOCK)
    highest = blocks.amax(-1)
    reached = _last_of_best(highest, count) + noise.LOWEST
    if not reached > -math.inf:  # few tokens are allowed, or scores are NaN: nothing can be left out
        return _of_all(scores, count, key)
    able = _able(highest + noise.HIGHEST, reached)
    bits = _hashed(able, key)
    if len(able) > _FEW:
        closer = _closer(blocks[able], highest[able], bits, count)
        able, bits = able[closer], bits[closer]
    values, places = top((blocks[able] + noise.gumbel_of(bits)).flatten(), count)
    within = noise.light(places)
    tokens = noise.light(able)[within // _BLOCK] * _BLOCK + within % _BLOCK
    return values, torch.as_tensor(tokens)


def top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Values and indices [count] of the best of scores [V], best first; of equal ones, a single best is the first."""
    values, indices = scores.max(-1, keepdim=True) if count == 1 else scores.topk(count)
    return values, indices


def largest(scores: Tensor, count: int) -> Tensor:
    """[count]: the largest of scores [V], the very largest first. They lie in as many of the best blocks."""
    rest = len(scores) % _BLOCK
    if len(scores) < _SEVERAL * count * _BLOCK:
        return scores.topk(count).values
    blocks = scores[: len(scores) - rest].view(-1, _BLOCK)
    inside = blocks[blocks.amax(-1).topk(count, sorted=False).indices].flatten()
    return (torch.cat([inside, scores[-rest:]]) if rest else inside).topk(count).values


def _of_all(scores: Tensor, count: int, key: int) -> tuple[Tensor, Tensor]:
    every = torch.arange(len(scores), dtype=torch.int32, device=scores.device)
    return top(scores + noise.gumbel_of(noise.hashed(every, key)), count)


def _last_of_best(values: Tensor, count: int) -> Tensor:
    """[]: the ``count``-th largest of values [M]; -inf where there are fewer."""
    if count == 1:
        return values.amax()
    return values.topk(count).values[-1] if count <= len(values) else values.new_tensor(-math.inf)


def _closer(blocks: Tensor, highest: Tensor, bits: Tensor, count: int) -> Tensor:
    """Which of ``blocks`` [M, 64] may hold a winner by their hashes ``bits``, given what the best of them reach."""
    bounds = highest + noise.gumbel_of(noise.rarest(bits)).add_(_SLACK)
    promising = bounds.topk(min(max(count, _LOOK), len(bounds))).indices
    drawn = (blocks[promising] + noise.gumbel_of(bits[promising])).flatten()
    return _able(bounds, _last_of_best(drawn, count))


def _able(bounds: Tensor, reached: Tensor) -> Tensor:
    """The blocks that may hold a winner, in order, by what each has at most. Sums round alike, so equal is not less."""
    return (bounds >= reached).nonzero().squeeze(-1)


def _hashed(blocks: Tensor, key: int) -> Tensor:
    """[M, 64] hashes of the tokens in ``blocks`` [M]."""
    within = torch.arange(_BLOCK, dtype=torch.int32, device=blocks.device)
    tokens = noise.light(blocks.int())[:, None] * _BLOCK + noise.light(within)
    return noise.hashed(torch.as_tensor(tokens), key)
