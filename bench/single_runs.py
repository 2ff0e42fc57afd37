"""Runs of a network one at a time, over caches that hold random numbers: to compare two networks, or to time one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from skipstone.cache import KVCache
from skipstone.network import Network
from skipstone.plan import LayerPlan
from skipstone.tree import Topology


@dataclass(frozen=True)
class Size:
    """A chain of ``nodes`` in each of ``rows``; row r of the cache holds ``length - 5 r`` tokens."""

    rows: tuple[int, ...]
    nodes: int
    length: int

    def cache(self, network: Network) -> KVCache:
        rows = max(self.rows) + 1
        cache = network.new_cache(rows, self.length + self.nodes + 8)
        generator = torch.Generator(network.device).manual_seed(self.length)
        for buffer in (*cache.keys, *cache.values):
            buffer.normal_(0.0, 1.0, generator=generator)
        cache.lengths[:] = [max(self.length - 5 * row, 0) for row in range(rows)]
        return cache

    def tokens(self, network: Network, step: int = 1) -> Tensor:
        count = len(self.rows) * self.nodes
        return torch.arange(count, device=network.device).view(len(self.rows), self.nodes) * step + 3

    def enter(self, network: Network, plan: LayerPlan, step: int = 1) -> Tensor:
        """What a run of ``plan`` starts from: tokens, or hidden states that have seen no context."""
        tokens = self.tokens(network, step)
        if plan.start == 0:
            return tokens
        cache = network.new_cache(len(self.rows), self.nodes)
        placement = cache.place(Topology.chain(self.nodes), range(len(self.rows)))
        return network.run(tokens, placement, cache, LayerPlan.until(plan.start)).hidden


def gap(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, relative to the largest number."""
    return float((ours.float() - theirs.float()).abs().max() / theirs.float().abs().max().clamp_min(1e-9))


def compare(plain: Network, graphed: Network, plan: LayerPlan, size: Size) -> dict[str, float]:
    """Gaps of the second run of a kind: a replay over buffers that held another run's numbers."""
    chain, results = Topology.chain(size.nodes), []
    caches = [size.cache(plain) for _ in range(2)]
    for net, cache in zip((plain, graphed), caches, strict=True):
        for step in (1, 2):
            x = size.enter(plain, plan, step)
            hidden = net.run(x, cache.place(chain, size.rows), cache, plan).hidden
        results.append((hidden, net.logits(hidden)))
    keys = max(gap(b, a) for a, b in zip(caches[0].keys, caches[1].keys, strict=True))
    (hidden, logits), (hidden_graphed, logits_graphed) = results
    return {"hidden": gap(hidden_graphed, hidden), "logits": gap(logits_graphed, logits), "keys": keys}


def rounding(network: Network, size: Size) -> float:
    """The gap in the last logits between all nodes at once and one by one: what other kernels alone change."""
    full, tokens = LayerPlan.full(network.num_layers), size.tokens(network)
    cache = size.cache(network)
    at_once = network.logits(
        network.run(tokens, cache.place(Topology.chain(size.nodes), size.rows), cache, full).hidden
    )
    cache = size.cache(network)
    for node in range(size.nodes):
        placement = cache.place(Topology.chain(1), size.rows)
        last = network.logits(network.run(tokens[:, node : node + 1], placement, cache, full).hidden)
        cache.commit(size.rows, [[0]] * len(size.rows))
    return gap(at_once[:, -1:], last)


def one_run(network: Network, plan: LayerPlan, size: Size) -> Callable[[], object]:
    """A run to be timed, placed as the engine places it each time."""
    cache, chain, x = size.cache(network), Topology.chain(size.nodes), size.enter(network, plan)
    return lambda: network.run(x, cache.place(chain, size.rows), cache, plan)


def one_head(network: Network, nodes: int, hidden_size: int) -> Callable[[], object]:
    hidden = torch.randn(1, nodes, hidden_size, device=network.device, dtype=network.dtype)
    return lambda: network.logits(hidden)
