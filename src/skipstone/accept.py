"""How a draft token is picked and how the target's scores judge it: two halves of one rule, so they live together.

``Follow`` (the default) is lossless in the strict sense: the output is token for token that of plain decoding.
``Rejection`` is the rule of the speculative sampling papers (2211.17192, 2302.01318), here for comparison: the output
has the target's distribution, but is another sample than plain decoding's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from .errors import ConstraintError, NumericsError, SkipstoneError, UsageError
from .noise import Stream
from .sampling import RowSampler
from .tree import Topology


@dataclass(frozen=True)
class Pick:
    """What a drafter gets for one row and node: choices best first, and what it needs to know about them."""

    tokens: list[int]  # W or fewer, distinct
    scores: Tensor  # [V] processed draft scores, without noise
    probs: Tensor | None = None  # [V]: the distribution drawn from, for rules that ask for it

    @cached_property
    def confidence(self) -> float:
        """The draft's probability of its first choice, noise aside; 0 where the scores are no distribution."""
        chance = float((self.scores[self.tokens[0]] - self.scores.logsumexp(-1)).exp())
        return chance if math.isfinite(chance) else 0.0


@dataclass(frozen=True)
class Nodes:
    """One row's draft as a rule sees it."""

    topology: Topology
    tokens: Sequence[int]  # N
    live: Sequence[bool]  # N
    probs: Tensor | None = None  # [N - 1, V]


class Scores(Protocol):
    """Processed target scores of a draft's nodes; a tensor [N, V] will do."""

    def __getitem__(self, node: int) -> Tensor:
        """[V]. May raise what keeps the node from having any."""
        ...


class NodeScores:
    """Scores of nodes with ``logits`` [N, V], each when it is first asked for: few nodes of a wrong draft ever are."""

    def __init__(self, nodes: Nodes, logits: Tensor, sampler: RowSampler) -> None:
        self._nodes = nodes
        self._logits = logits
        self._sampler = sampler
        self._known: dict[int, Tensor] = {}

    def __getitem__(self, node: int) -> Tensor:
        if node not in self._known:
            self._known |= self._scored([node] if self._sampler.processors is None else range(len(self._logits)))
        return self._known[node]

    def _scored(self, asked: Sequence[int]) -> dict[int, Tensor]:
        """Processors of others see all nodes at once."""
        tokens, topology = self._nodes.tokens, self._nodes.topology
        paths = [[tokens[n] for n in topology.path(node)] for node in asked]
        return dict(zip(asked, self._sampler.scores(self._logits[asked[0] : asked[-1] + 1], paths), strict=True))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The accepted nodes of one row below the root, in order, and the target's own next token after them.

    Where no token can be chosen, ``error`` says why; the nodes accepted before are good all the same, as plain decoding
    would have given their tokens, and perhaps ended with one of them.
    """

    path: list[int]
    next: int | None
    error: SkipstoneError | None = None


class AcceptanceRule(Protocol):
    @property
    def lossless(self) -> bool:
        """Whether the output is that of plain decoding, token for token."""
        ...

    def pick(self, scores: Tensor, sampler: RowSampler, depth: int, width: int) -> Pick:
        """Choose ``width`` draft tokens by processed scores [V], for the token ``depth`` places after the next one."""
        ...

    def judge(self, nodes: Nodes, scores: Scores, sampler: RowSampler) -> Verdict:
        """Walk down the draft along processed target scores. Raises UsageError for a draft it cannot judge."""
        ...


class Follow:
    """Take the target's own choice at every node, and go on while that choice is a child.

    The choice is argmax(scores + noise keyed by seed and position), which never looks at the draft: hence the law that
    the output does not depend on the drafter. The draft guesses with the same noise.
    """

    lossless = True

    def pick(self, scores: Tensor, sampler: RowSampler, depth: int, width: int) -> Pick:
        return Pick(sampler.best(scores, depth, min(width, len(scores)))[1].tolist(), scores)

    def judge(self, nodes: Nodes, scores: Scores, sampler: RowSampler) -> Verdict:
        path: list[int] = []
        node = 0
        while True:
            choice = _target_choice(scores, node, nodes.topology.depth[node], sampler)
            if isinstance(choice, SkipstoneError):
                return Verdict(path, None, choice)
            child = _live_child(nodes, node, choice)
            if child is None:
                return Verdict(path, choice)
            path.append(child)
            node = child


def _target_choice(scores: Scores, node: int, depth: int, sampler: RowSampler) -> int | SkipstoneError:
    """The target's own token at a node, or why there is none."""
    try:
        best, choice = sampler.best(scores[node], depth)
    except SkipstoneError as error:
        return error
    return _no_choice(float(best)) or int(choice)


def _live_child(nodes: Nodes, node: int, token: int) -> int | None:
    return next((c for c in nodes.topology.children[node] if nodes.live[c] and nodes.tokens[c] == token), None)


def _dead_end(scores: Scores, node: int) -> SkipstoneError | None:
    """Why nothing can be chosen at a node, noise aside."""
    try:
        return _no_choice(float(scores[node].max()))
    except SkipstoneError as error:
        return error


def _no_choice(value: float) -> SkipstoneError | None:
    """Why a node whose best score is ``value`` has no next token; None where it has one."""
    if value == -math.inf:
        return ConstraintError("no token is allowed here: the constraint or logit_bias rules out the whole vocabulary")
    if not math.isfinite(value):
        return NumericsError(
            f"the model's logits are not finite (best score {value}): its weights are damaged or overflow in this "
            "dtype; try float32"
        )
    return None


class Rejection:
    """Accept draft token x with probability min(1, p(x) / q(x)); at the first rejection sample from max(p - q, 0).

    Chains only. Draws are keyed by (seed, position) in streams of their own, so a run can be repeated, but the text
    depends on the drafter. A draft without probabilities (n-grams, or logits that overflowed) counts as certain of its
    token.
    """

    lossless = False

    def pick(self, scores: Tensor, sampler: RowSampler, depth: int, width: int) -> Pick:
        if width != 1:
            raise UsageError(f"the rejection rule judges chains only: use width=1, not {width} (swift: bands=off)")
        token = int(sampler.best(scores, depth, stream=Stream.DRAFT)[1])
        return Pick([token], scores, _distribution(scores, sampler))

    def judge(self, nodes: Nodes, scores: Scores, sampler: RowSampler) -> Verdict:
        if nodes.topology != Topology.chain(len(nodes.tokens)):
            raise UsageError("the rejection rule judges chains only: use a drafter without siblings")
        for node in range(len(nodes.tokens)):
            drafted = node + 1
            error = _dead_end(scores, node)
            if error is not None:
                return Verdict(list(range(1, drafted)), None, error)
            target = _distribution(scores[node], sampler)
            if drafted == len(nodes.tokens) or not nodes.live[drafted]:
                return Verdict(list(range(1, drafted)), self._sample(target, sampler, node))
            q = self._draft_distribution(nodes, drafted, target)
            token = nodes.tokens[drafted]
            if sampler.uniform(node, Stream.ACCEPT) * float(q[token]) >= float(target[token]):
                residual = (target - q).clamp_min(0)
                return Verdict(list(range(1, drafted)), self._sample(residual, sampler, node))
        raise AssertionError("a chain ends with its last node")

    @staticmethod
    def _draft_distribution(nodes: Nodes, drafted: int, target: Tensor) -> Tensor:
        if nodes.probs is not None and nodes.probs[drafted - 1].isfinite().all():
            return nodes.probs[drafted - 1].to(target)
        return torch.nn.functional.one_hot(torch.tensor(nodes.tokens[drafted]), target.shape[-1]).to(target)

    @staticmethod
    def _sample(weights: Tensor, sampler: RowSampler, depth: int) -> int:
        """Gumbel-max over unnormalised weights; the best of them at temperature 0."""
        return int(sampler.best(weights.log(), depth)[1])


def _distribution(scores: Tensor, sampler: RowSampler) -> Tensor:
    if sampler.greedy:
        return torch.nn.functional.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores)
    return scores.softmax(-1)
