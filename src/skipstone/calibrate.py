"""Timing a network's sublayers within a budget: the ``CostTable`` of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from statistics import median, median_low
from time import perf_counter

import torch
from torch import Tensor

from .cache import KVCache
from .cost import CostTable
from .network import Network
from .plan import LayerPlan
from .probes import Grid, Part, Probe, cost_table
from .tree import Topology

_SCRATCH_BYTES = 256 << 20  # of keys and values; what a longer context costs is extrapolated
_REPEATS = 9  # samples a probe: a small network needs no whole budget
_CAUTION = 1.2  # a probe may take so many times its longest sample,
_MORE_CAUTION = 2.0  # and one not yet timed so many times the longest of all
_TIMED = 0.98  # of the budget; giving the scratch memory back takes the rest
_SEED = 0


def measure(network: Network, budget_s: float = 2.0, clock: Callable[[], float] = perf_counter) -> CostTable:
    """Time plans without some of their sublayers, on scratch caches, for at most ``budget_s`` seconds.

    Probes are repeated, interleaved, and their medians count; those that say most come first, so that a slow network
    is measured at fewer points. One step is timed whatever it takes.
    """
    deadline = clock() + _TIMED * budget_s
    bench = _Bench(network, clock)
    taken: dict[Probe, list[float]] = {}  # seconds
    for probe in _schedule(bench.grid):
        if not taken or clock() + _likely(taken, probe) <= deadline:
            taken.setdefault(probe, []).append(bench.seconds(probe))
    table = cost_table(bench.grid, {probe: median_low(seconds) * 1e3 for probe, seconds in taken.items()})
    return replace(table, spread=_spread_of(list(taken.values())))


def _spread_of(taken: Sequence[Sequence[float]]) -> float:
    """How many times its shortest time a probe takes, at the median over probes: near 1 where nothing else runs."""
    spreads = [median(seconds) / min(seconds) for seconds in taken if len(seconds) > 1 and min(seconds) > 0]
    return median(spreads) if spreads else 1.0


def _schedule(grid: Grid) -> Iterator[Probe]:
    """What matters most is repeated before the rest is measured at all."""
    first, second, third = grid.levels()
    yield from chain(first, second, first, second, third)
    for _ in range(_REPEATS - 2):
        yield from chain(first, second, third)


def _likely(taken: dict[Probe, list[float]], probe: Probe) -> float:
    """Seconds the probe may take."""
    if probe in taken:
        return _CAUTION * max(taken[probe])
    return _MORE_CAUTION * max(max(seconds) for seconds in taken.values())


class _Bench:
    """Scratch caches and inputs, on which any probe can be timed."""

    def __init__(self, network: Network, clock: Callable[[], float]) -> None:
        self.network = network
        self.clock = clock
        self.grid = Grid.fitting(network.num_layers, network.vocab_size, min(network.context, _affordable(network)))
        self.plans = _plans(network.num_layers)
        rows = self.grid.batch.rows
        self.caches = {1: _scratch(network, 1, self.grid.slots), rows: _scratch(network, rows, self.grid.short + 1)}
        drawn = torch.Generator().manual_seed(_SEED)
        shape = (rows, self.grid.nodes[-1])
        self.tokens = torch.randint(network.vocab_size, shape, generator=drawn).to(network.device)
        self.hidden = self._run(Probe(Part.NONE, self.grid.nodes[-1]))
        narrow = {entries: network.narrow_head(_spread(network, entries)) for entries in self.grid.heads[:-1]}
        self.heads = {self.grid.heads[-1]: network.logits, **narrow}

    def seconds(self, probe: Probe) -> float:
        start = self.clock()
        out = self._head(probe) if probe.part is Part.HEAD else self._run(probe)
        out[0, 0, 0].item()  # waits for devices that work on their own
        return self.clock() - start

    def _run(self, probe: Probe) -> Tensor:
        """Hidden states [B, N, H]. The committed tokens are made up: what they are costs nothing."""
        cache = self.caches[probe.rows]
        cache.lengths[:] = [probe.context] * probe.rows
        placement = cache.place(Topology.chain(probe.nodes), range(probe.rows))
        return self.network.run(
            self.tokens[: probe.rows, : probe.nodes], placement, cache, self.plans[probe.part]
        ).hidden

    def _head(self, probe: Probe) -> Tensor:
        """Logits [1, N, S]."""
        return self.heads[probe.entries](self.hidden[:, : probe.nodes])


def _plans(layers: int) -> dict[Part, LayerPlan]:
    every = range(layers)
    return {
        Part.FULL: LayerPlan.full(layers),
        Part.ATTENTION: LayerPlan.skipping(layers, mlp=every),
        Part.NONE: LayerPlan.skipping(layers, attn=every, mlp=every),
    }


def _affordable(network: Network) -> int:
    """Slots whose keys and values fit in the scratch memory."""
    slot = network.new_cache(1, 1)
    size = sum(buffer.numel() * buffer.element_size() for buffer in (*slot.keys, *slot.values))
    return max(2, _SCRATCH_BYTES // max(1, size))


def _scratch(network: Network, rows: int, slots: int) -> KVCache:
    """A cache written all over: zeros nobody wrote may share one page of memory, which is read far too fast."""
    cache = network.new_cache(rows, slots)
    for buffer in (*cache.keys, *cache.values):
        buffer.fill_(0.01)
    return cache


def _spread(network: Network, entries: int) -> Tensor:
    """Token ids [S] from all over the vocabulary, as frequent tokens are."""
    return (torch.arange(entries) * (network.vocab_size // entries)).to(network.device)
