"""A network that computes as another does, on a clock that a table of costs moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from skipstone.cache import KVCache, Placement
from skipstone.cost import CostTable, Step
from skipstone.network import Network, Run
from skipstone.plan import LayerPlan


@dataclass
class ClockedNetwork:
    """Satisfies ``Network``; ``now`` is in seconds."""

    inner: Network
    table: CostTable
    now: float = 0.0

    def clock(self) -> float:
        return self.now

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def num_layers(self) -> int:
        return self.inner.num_layers

    @property
    def vocab_size(self) -> int:
        return self.inner.vocab_size

    @property
    def context(self) -> int:
        return self.inner.context

    @property
    def dtype(self) -> torch.dtype:
        return self.inner.dtype

    @property
    def device(self) -> torch.device:
        return self.inner.device

    def new_cache(self, rows: int, capacity: int) -> KVCache:
        return self.inner.new_cache(rows, capacity)

    def run(self, x: Tensor, placement: Placement, cache: KVCache, plan: LayerPlan, taps: Sequence[int] = ()) -> Run:
        self.now += self.table.ms(Step(plan, x.shape[1], x.shape[0], placement.first[0], head=False)) / 1e3
        return self.inner.run(x, placement, cache, plan, taps)

    def logits(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
        entries = self.vocab_size if subset is None else len(subset)
        self.now += self.table.head(entries, hidden.shape[0] * hidden.shape[1]) / 1e3
        return self.inner.logits(hidden, subset)

    def narrow_head(self, tokens: Tensor) -> Callable[[Tensor], Tensor]:
        head = self.inner.narrow_head(tokens)

        def timed(hidden: Tensor) -> Tensor:
            self.now += self.table.head(len(tokens), hidden.shape[0] * hidden.shape[1]) / 1e3
            return head(hidden)

        return timed
