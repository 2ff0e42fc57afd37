"""Graphs by key: which are recorded, which are dropped, which cannot be."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ..errors import UsageError

Graph = TypeVar("Graph")
_UNCOUNTED = 256  # keys whose uses are remembered: one that comes back after so many others is not in steady use


@dataclass(frozen=True)
class GraphOptions:
    """``after`` runs with one key make its use steady: the next is recorded. At most ``limit`` graphs a cache are kept.

    Runs of more than ``max_nodes`` nodes a row are prefill: large enough to keep a device busy without a graph, and of
    all sizes. No graph reads fewer than ``smallest`` slots, however short its texts.
    """

    after: int = 2
    limit: int = 64
    max_nodes: int = 64
    smallest: int = 128

    def __post_init__(self) -> None:
        if self.after < 0 or min(self.limit, self.max_nodes, self.smallest) < 1:
            raise UsageError(f"{self} cannot work: all of these are 1 or more, after is not negative")


@dataclass
class Journal:
    """What was learnt about keys, whichever cache they were run on: how often they came, and why some failed."""

    uses: OrderedDict[Hashable, int] = field(default_factory=OrderedDict)
    failed: dict[Hashable, str] = field(default_factory=dict)

    def count(self, key: Hashable) -> int:
        """How often ``key`` came before."""
        before = self.uses.pop(key, 0)
        self.uses[key] = before + 1
        if len(self.uses) > _UNCOUNTED:
            self.uses.popitem(last=False)
        return before

    @property
    def notes(self) -> list[str]:
        """Each reason once."""
        return list(dict.fromkeys(f"runs without a CUDA graph: {reason}" for reason in self.failed.values()))


class GraphTable(Generic[Graph]):
    """The graphs of one cache, or those that need none."""

    def __init__(self, options: GraphOptions, journal: Journal) -> None:
        self.options = options
        self.journal = journal
        self.graphs: OrderedDict[Hashable, Graph] = OrderedDict()

    def get(self, key: Hashable, record: Callable[[], Graph]) -> Graph | None:
        """The graph of ``key``, recorded now where its use is steady; None where there is none (yet)."""
        if key in self.graphs:
            self.graphs.move_to_end(key)
            return self.graphs[key]
        if key in self.journal.failed or self.journal.count(key) < self.options.after:
            return None
        return self._record(key, record)

    def _record(self, key: Hashable, record: Callable[[], Graph]) -> Graph | None:
        try:
            graph = record()
        except Exception as error:  # whatever it is, the run itself goes on without a graph
            self.journal.failed[key] = f"{error}".strip().partition("\n")[0] or type(error).__name__
            return None
        while len(self.graphs) >= self.options.limit:
            self.graphs.popitem(last=False)
        self.graphs[key] = graph
        return graph
