"""Pearson's test of counts against probabilities."""

from __future__ import annotations

import torch
from torch import Tensor


def p_value(counts: Tensor, probabilities: Tensor) -> float:
    """How likely counts at least this far from ``probabilities`` are; cells expected below 5 times are pooled."""
    counts, expected = counts.double().flatten(), probabilities.double().flatten() * counts.sum()
    rare = expected < 5
    counts = torch.cat([counts[~rare], counts[rare].sum()[None]])
    expected = torch.cat([expected[~rare], expected[rare].sum()[None]])
    if expected[-1] < 5:  # still rare: with the last of the others
        counts = torch.cat([counts[:-2], counts[-2:].sum()[None]])
        expected = torch.cat([expected[:-2], expected[-2:].sum()[None]])
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = torch.tensor((len(counts) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, statistic / 2))
