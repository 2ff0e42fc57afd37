"""Top-k, top-p and min-p: processed scores [N, V] with -inf for what is cut off.

After a step the caches are full of weights, and every operation starts cold: there are few here, most of them small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .winners import largest

# tokens looked at for the nucleus, until they reach it: of 49k words all take 4 ms, the best 4096 0.7, 256 0.2, 32 0.04
_LOOKS = (32, 256, 4096)
_FEW = 256  # adding up so many numbers in Python takes less than starting operations: mostly a handful is enough


def top_k(scores: Tensor, count: int) -> Tensor:
    """The ``count`` largest of each row, and what is equal to the last of them."""
    return _keep_from(scores, [float(largest(row, count)[-1]) for row in scores])


def top_p(scores: Tensor, probability: float, most: int) -> Tensor:
    """The fewest largest of each row that reach ``probability`` together; the ``most`` largest where these do not."""
    most = min(most, scores.shape[-1])
    looks = [*(look for look in _LOOKS if look < most), most]
    return _keep_from(scores, [_nucleus_edge(row, probability, looks) for row in scores])


def min_p(scores: Tensor, share: float) -> Tensor:
    """What is at least ``share`` times as likely as the best of its row."""
    return _keep_from(scores, (scores.amax(-1) + math.log(share)).tolist())


def _keep_from(scores: Tensor, edges: Sequence[float]) -> Tensor:
    """Scores with -inf for those below the edge of their row."""
    if scores.device.type != "cpu":
        return torch.where(scores < scores.new_tensor(edges)[:, None], -math.inf, scores)
    # PyTorch's where and masked_fill branch at every number there: ten times the time
    kind = np.float64 if scores.dtype == torch.float64 else np.float32
    tiny = -float(np.finfo(kind).tiny)  # what is nearer to 0 may count as 0
    with np.errstate(over="ignore"):  # below the lowest number is -inf
        below = [float(np.nextafter(kind(edge), kind(-math.inf))) if edge else tiny for edge in edges]
    kept = [torch.threshold(row, most, -math.inf) for row, most in zip(scores, below, strict=True)]
    return torch.stack(kept) if len(kept) > 1 else kept[0][None]


def _nucleus_edge(scores: Tensor, probability: float, looks: Sequence[int]) -> float:
    """The last of the fewest largest of ``scores`` [V] that reach ``probability``; else that of the last look."""
    # softmax would add up so many numbers one after the other, to some 1e-5; sum() goes by pairs
    peak = 1 / float((scores - scores.amax()).exp_().sum())
    best = scores
    for look in looks:
        best = largest(scores, look)
        short = _short(best, peak, probability)
        if short < look:
            return float(best[short])
    return float(best[-1])


def _short(best: Tensor, peak: float, probability: float) -> int:
    """How many of ``best`` [K], the largest scores, are too few to reach ``probability``: K where all are.

    The very largest has the probability ``peak``.
    """
    if len(best) > _FEW:
        mass = (best - best[0]).exp_().cumsum(-1).mul_(peak)
        return int((mass < probability).sum())
    reached = 0.0
    first, *_ = values = best.tolist()
    for count, value in enumerate(values):
        reached += peak * math.exp(value - first)
        if not reached < probability:  # nor if it is NaN
            return count
    return len(values)
