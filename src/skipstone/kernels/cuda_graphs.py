"""A network that replays CUDA graphs: one launch a run instead of some hundred.

A small batch of nodes leaves a GPU waiting for the host, which launches kernel after kernel. A graph is recorded for
each kind of run in steady use (``RunKey``), over buffers that stay where they are; everything variable is a tensor in
them. What has no graph runs on the wrapped network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ..cache import KVCache, Placement
from ..network import Network, Run
from ..plan import LayerPlan
from .graph_key import LogitsKey, RunKey, bucket_of
from .graph_table import GraphOptions, GraphTable, Journal
from .graphs import LogitsGraph, RunGraph, RunInputs
from .recorder import CudaRecorder, Recorder
from .slot_cache import SlotCache


class GraphedNetwork:
    """``network`` (also ``inner``) with its steady runs replayed; see ``Network`` for the contract.

    ``network`` must reach keys and values through ``cache.write`` alone. ``notes`` says what could not be recorded and
    why; nothing but speed is lost. Graphs belong to the cache object they were recorded for and go with it.
    """

    def __init__(self, network: Network, recorder: Recorder | None = None, options: GraphOptions | None = None) -> None:
        self.inner = network
        self.num_layers = network.num_layers
        self.vocab_size = network.vocab_size
        self.context = network.context
        self.dtype = network.dtype
        self.device = network.device
        self.recorder = recorder or CudaRecorder(network.device)
        self.options = options or GraphOptions()
        self._journal = Journal()
        self._runs: WeakKeyDictionary[KVCache, GraphTable[RunGraph]] = WeakKeyDictionary()
        self._logits: GraphTable[LogitsGraph] = GraphTable(self.options, self._journal)
        self._lock = RLock()  # the buffers of a graph serve one call at a time

    @property
    def for_once(self) -> Network:
        """The network without graphs, over the same caches: see ``network.for_once``."""
        return self.inner

    @property
    def notes(self) -> list[str]:
        """Why some runs have no graph, a line each."""
        return self._journal.notes

    @property
    def recorded(self) -> int:
        """Graphs there are now."""
        return len(self._logits.graphs) + sum(len(table.graphs) for table in self._runs.values())

    def new_cache(self, rows: int, capacity: int) -> KVCache:
        return self.inner.new_cache(rows, capacity)

    @torch.inference_mode()
    def run(self, x: Tensor, placement: Placement, cache: KVCache, plan: LayerPlan, taps: Sequence[int] = ()) -> Run:
        if x.shape[1] <= self.options.max_nodes and SlotCache.fits(cache):
            bucket = bucket_of(placement.extent, cache.capacity, self.options.smallest)
            key = RunKey.of(x, placement, plan, taps, bucket)
            with self._lock:
                graph = self._table(cache).get(key, lambda: self._record(key, x, placement, cache))
                if graph is not None:
                    return graph(x, placement)
        return self.inner.run(x, placement, cache, plan, taps)

    def narrow_head(self, tokens: Tensor) -> Callable[[Tensor], Tensor]:
        return self.inner.narrow_head(tokens)

    @torch.inference_mode()
    def logits(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
        if hidden.shape[1] <= self.options.max_nodes:
            with self._lock:
                key = LogitsKey.of(hidden, subset)
                graph = self._logits.get(key, lambda: LogitsGraph(self.inner, self.recorder, hidden, subset))
                if graph is not None:
                    return graph(hidden)
        return self.inner.logits(hidden, subset)

    def _table(self, cache: KVCache) -> GraphTable[RunGraph]:
        table = self._runs.get(cache)
        if table is None:
            table = self._runs[cache] = GraphTable(self.options, self._journal)
        return table

    def _record(self, key: RunKey, x: Tensor, placement: Placement, cache: KVCache) -> RunGraph:
        inputs = RunInputs(key, x, cache.device)
        inputs.fill(x, placement)  # the recorder runs what it records
        return RunGraph(inputs, self.inner, self.recorder, SlotCache(cache, inputs.rows, inputs.span))
