"""The shape of a draft: node 0 is the pending token, every other node is a guess at what follows its parent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from .errors import UsageError

NO_PARENT = -1


@dataclass(frozen=True)
class Topology:
    """``parents[n]`` is the parent of node n, NO_PARENT for a root. Parents come before their children.

    A draft has one root, node 0. A replay (many verified tokens scored at once) has roots only.
    The *backbone* is the chain of first children from node 0.
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.parents:
            raise UsageError("a topology needs at least its root")
        for node, parent in enumerate(self.parents):
            if not NO_PARENT <= parent < node:
                raise UsageError(f"node {node} has parent {parent}: parents come before their children")

    @classmethod
    @lru_cache(maxsize=128)
    def chain(cls, nodes: int) -> Topology:
        """Root and ``nodes - 1`` drafted tokens, each following the one before."""
        return cls(tuple(range(-1, nodes - 1)))

    @classmethod
    @lru_cache(maxsize=128)
    def comb(cls, widths: tuple[int, ...]) -> Topology:
        """A backbone of ``len(widths)`` drafted tokens; at depth i ``widths[i - 1]`` choices, all but the first leaves.

        The backbone comes first (nodes 0 .. depth), then the siblings depth by depth: the slots of the backbone do not
        depend on the widths, and committing it moves nothing.
        """
        siblings = [depth for depth, width in enumerate(widths) for _ in range(width - 1)]
        return cls((*range(-1, len(widths)), *siblings))

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def depth(self) -> tuple[int, ...]:
        """Distance of each node from its root."""
        depth: list[int] = []
        for parent in self.parents:
            depth.append(0 if parent == NO_PARENT else depth[parent] + 1)
        return tuple(depth)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        children: list[list[int]] = [[] for _ in self.parents]
        for node, parent in enumerate(self.parents):
            if parent != NO_PARENT:
                children[parent].append(node)
        return tuple(tuple(c) for c in children)

    @cached_property
    def backbone(self) -> tuple[int, ...]:
        """Node 0 and the first choice at every depth below it."""
        chain = [0]
        while self.children[chain[-1]]:
            chain.append(self.children[chain[-1]][0])
        return tuple(chain)

    @cached_property
    def ancestors(self) -> Tensor:
        """[N, N] bool: row n marks node n and everything above it, which is what n may attend to."""
        if self.parents == tuple(range(-1, len(self) - 1)):
            return torch.ones(len(self), len(self), dtype=torch.bool).tril()
        seen = torch.eye(len(self), dtype=torch.bool)
        for node, parent in enumerate(self.parents):
            if parent != NO_PARENT:
                seen[node] |= seen[parent]
        return seen

    @cached_property
    def depths(self) -> Tensor:
        """[N] int64: ``depth`` as a tensor."""
        return torch.tensor(self.depth)

    def path(self, node: int) -> list[int]:
        """The nodes from below the root down to ``node``; empty for a root."""
        path: list[int] = []
        while self.parents[node] != NO_PARENT:
            path.append(node)
            node = self.parents[node]
        return path[::-1]


@dataclass(frozen=True)
class Resume:
    """Hidden states that layers 0 .. ``layer - 1`` have already computed, so that verification starts at ``layer``."""

    hidden: Tensor  # [B, N, H]
    layer: int


@dataclass(frozen=True)
class Verified:
    """What verification of one row's draft showed: A accepted nodes, and what the target chose after each.

    Behind a stop nothing is shown: the tokens are those emitted, and the nodes those they follow.
    """

    place: int  # of the row among those of the draft
    nodes: list[int]  # 1 + A or fewer: the root, and the accepted nodes below it
    said: list[int]  # as many: the target's token after each
    taps: Mapping[int, Tensor]  # by layer: [nodes, H] that entered it, the nodes in this order


@dataclass(frozen=True)
class Feedback:
    """What a drafter wants to know of a verification beyond its record. ``taps`` are layers that it runs."""

    tell: Callable[[Verified], None]  # row by row, once their tokens are part of the texts
    taps: tuple[int, ...] = ()


@dataclass(frozen=True)
class Draft:
    """What a drafter proposes for B rows: one topology for all of them, tokens for each."""

    topology: Topology
    tokens: Tensor  # [B, N] int64; column 0 holds the pending tokens
    live: Tensor  # [B, N] bool; a filler (False) is never accepted nor counted, and neither is anything below it
    resume: Resume | None = None
    probs: Tensor | None = None  # [B, N - 1, V]: what node n + 1 was drawn from; only chains under the rejection rule
    search_s: float = 0.0  # seconds of proposing that went to the search for a better draft
    feedback: Feedback | None = None

    def __post_init__(self) -> None:
        want = (self.tokens.shape[0], len(self.topology))
        if tuple(self.tokens.shape) != want or tuple(self.live.shape) != want:
            raise UsageError(
                f"a draft of {want[1]} nodes needs tokens and live of shape {want}, "
                f"not {tuple(self.tokens.shape)} and {tuple(self.live.shape)}"
            )


def root_only(pending: Sequence[int] | Tensor) -> Draft:
    """The draft that proposes nothing: verification of it is plain decoding. ``pending`` is [B]."""
    tokens = torch.as_tensor(pending).reshape(-1, 1)
    return Draft(Topology.chain(1), tokens, torch.ones_like(tokens, dtype=torch.bool))
