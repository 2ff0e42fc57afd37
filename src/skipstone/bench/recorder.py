"""An acceptance rule that remembers the scores each decision was made on."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..accept import AcceptanceRule, Nodes, Pick, Scores, Verdict
from ..sampling import RowSampler

# a near-tie has both tokens among the very best of either arm
KEPT = 8


@dataclass
class ScoreRecorder:
    """Wraps a rule for an engine of one row; ``best[i]`` maps the best tokens for output token i to their scores."""

    rule: AcceptanceRule
    best: list[dict[int, float]] = field(default_factory=list)

    @property
    def lossless(self) -> bool:
        return self.rule.lossless

    def pick(self, scores: Tensor, sampler: RowSampler, depth: int, width: int) -> Pick:
        return self.rule.pick(scores, sampler, depth, width)

    def judge(self, nodes: Nodes, scores: Scores, sampler: RowSampler) -> Verdict:
        verdict = self.rule.judge(nodes, scores, sampler)
        visited = [0, *verdict.path]
        depths = [nodes.topology.depth[node] for node in visited]
        self.best.extend(best_scores(sampler.perturbed(torch.stack([scores[node] for node in visited]), depths)))
        return verdict


def best_scores(scores: Tensor) -> list[dict[int, float]]:
    """The best few of each row of ``scores`` [N, V] by token id."""
    top = scores.topk(min(KEPT, scores.shape[-1]))
    return [dict(zip(i, v, strict=True)) for i, v in zip(top.indices.tolist(), top.values.tolist(), strict=True)]
