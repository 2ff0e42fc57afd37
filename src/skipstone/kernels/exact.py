"""Plain and drafted decoding bit for bit the same: every run has one shape, so that one kernel computes every node.

Kernels differ by how many nodes they take and how much context they read, and with them the last bits of a sum. Here
every run is of ``nodes`` nodes of one row (filled up where it has fewer) and reads the whole cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..cache import KVCache, Placement
from ..errors import UsageError
from ..network import Network, Run
from ..plan import LayerPlan
from ..tree import Topology


class ExactNetwork:
    """``network`` (also ``inner``) in runs of one shape; see ``Network`` for the contract.

    Chains come out bit for bit whatever they are cut into. A node that is a sibling sees its path in other slots, hence
    summed in another order: it is equal within rounding, as without this class. So drafters that choose their widths
    by themselves ask for ``chains_only``.
    """

    chains_only = True

    def __init__(self, network: Network, nodes: int = 8) -> None:
        if nodes < 1:
            raise UsageError(f"runs of {nodes} nodes compute nothing: use 1 or more")
        self.inner = network
        self.nodes = nodes
        self.num_layers = network.num_layers
        self.vocab_size = network.vocab_size
        self.context = network.context
        self.dtype = network.dtype
        self.device = network.device

    def new_cache(self, rows: int, capacity: int) -> KVCache:
        """With room behind the last slot for what a run is filled up with."""
        cache = self.inner.new_cache(rows, capacity + self.nodes)
        cache.capacity = capacity
        return cache

    @torch.inference_mode()
    def run(self, x: Tensor, placement: Placement, cache: KVCache, plan: LayerPlan, taps: Sequence[int] = ()) -> Run:
        rows = [self._row(x, placement, b, cache, plan, taps) for b in range(len(placement.rows))]
        hidden = torch.cat([row.hidden for row in rows])
        return Run(hidden, {tap: torch.cat([row.taps[tap] for row in rows]) for tap in rows[0].taps})

    @torch.inference_mode()
    def logits(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
        return self._in_parts(hidden, lambda part: self.inner.logits(part, subset))

    def narrow_head(self, tokens: Tensor) -> Callable[[Tensor], Tensor]:
        head = self.inner.narrow_head(tokens)
        return torch.inference_mode()(lambda hidden: self._in_parts(hidden, head))

    def _in_parts(self, hidden: Tensor, head: Callable[[Tensor], Tensor]) -> Tensor:
        """[B, N, V] from [B, N, H], ``nodes`` nodes of one row at a time."""
        parts = [head(_filled(part, self.nodes))[0, : part.shape[1]] for part in self._parts(hidden)]
        return torch.cat(parts).view(*hidden.shape[:2], -1)

    def _parts(self, hidden: Tensor) -> list[Tensor]:
        return [part for row in hidden.split(1) for part in row.split(self.nodes, dim=1)]

    def _row(
        self, x: Tensor, placement: Placement, b: int, cache: KVCache, plan: LayerPlan, taps: Sequence[int]
    ) -> Run:
        """The nodes of one row, parents before children, so that a part sees those before it in the cache."""
        runs = []
        for start in range(0, x.shape[1], self.nodes):
            part = x[b : b + 1, start : start + self.nodes]
            where = self._placed(placement, b, start, cache)
            run = self.inner.run(_filled(part, self.nodes), where, cache, plan, taps)
            runs.append((run, part.shape[1]))
        hidden = torch.cat([run.hidden[:, :n] for run, n in runs], dim=1)
        tapped = {tap: torch.cat([run.taps[tap][:, :n] for run, n in runs], dim=1) for tap in runs[0][0].taps}
        return Run(hidden, tapped)

    def _placed(self, placement: Placement, b: int, start: int, cache: KVCache) -> Placement:
        """Where ``nodes`` nodes from ``start`` on go: fillers behind the last, seeing what it sees and themselves."""
        extent = cache.capacity + self.nodes
        row, first = placement.rows[b], placement.first[b] + start
        part = slice(start, start + self.nodes)
        visible = placement.visible.new_zeros(1, self.nodes, extent)
        seen = placement.visible[b : b + 1, part]
        visible[:, :, : placement.extent] = _filled(seen, self.nodes)
        slots = torch.arange(first, first + self.nodes, device=placement.slots.device)[None]
        visible[0, torch.arange(self.nodes), slots[0]] = True
        key_positions = placement.key_positions.new_zeros(1, extent)
        key_positions[:, : placement.extent] = placement.key_positions[b : b + 1]
        positions = _filled(placement.positions[b : b + 1, part], self.nodes)
        key_positions[:, first + seen.shape[1] : first + self.nodes] = positions[:, -1:]
        reach = _filled(placement.reach[b : b + 1, part], self.nodes)
        return Placement((row,), (first,), slots, positions, reach, visible, key_positions, extent, last=placement.last)


def _filled(x: Tensor, nodes: int) -> Tensor:
    """[1, nodes, …] from [1, N, …]: the last node again as often as is missing."""
    missing = nodes - x.shape[1]
    return x.contiguous() if not missing else torch.cat([x, x[:, -1:].expand(-1, missing, *x.shape[2:])], dim=1)


@torch.inference_mode()
def check_exact(network: ExactNetwork) -> None:
    """Raise UsageError unless nodes run one by one and together are the same to the last bit on this machine."""
    count = min(2 * network.nodes + 1, network.context - 1)
    tokens = torch.tensor([[(7 + 7919 * i) % network.vocab_size for i in range(count)]], device=network.device)
    together, alone = _run(network, tokens, count), _run(network, tokens, 1)
    if not torch.equal(together, alone):
        gap = float((together - alone).abs().max())
        raise UsageError(
            f"exact mode cannot be had here: logits of the same node differ by {gap:.1e} with its place in a run; try "
            "other weights, or do without (differences are rounding, see docs/equality.md)"
        )


def _run(network: ExactNetwork, tokens: Tensor, at_a_time: int) -> Tensor:
    cache = network.new_cache(1, tokens.shape[1] + 1)
    logits = []
    for part in tokens.split(at_a_time, dim=1):
        placement = cache.place(Topology.chain(part.shape[1]), [0])
        hidden = network.run(part, placement, cache, LayerPlan.full(network.num_layers)).hidden
        cache.commit([0], [range(part.shape[1])])
        logits.append(network.logits(hidden))
    return torch.cat(logits, dim=1)
