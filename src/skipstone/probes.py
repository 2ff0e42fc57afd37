"""What to time of a network, and the cost table that follows from the times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate

from .cost import CostTable
from .curve import Curve, Surface

_SHORT, _MIDDLE, _DEEP = 64, 512, 2048  # tokens of context
_NODES = (1, 2, 4, 6, 8, 12, 16, 32)
_ROWS = 4
_ATTENTION_SHARE = 1 / 3  # of a layer's time, about its share of the weights: where nothing better was measured


class Part(Enum):
    """What of a step runs. Differences of these are the sublayers, many at once, above the noise of one."""

    FULL = "all sublayers"
    ATTENTION = "all attention sublayers"
    NONE = "no sublayer"
    HEAD = "the LM head alone"


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing to time: ``nodes`` of each of ``rows`` rows after ``context`` tokens, or the head on ``nodes``."""

    part: Part
    nodes: int
    context: int = 0
    rows: int = 1
    entries: int = 0  # of the vocabulary; for the head


@dataclass(frozen=True, slots=True)
class Grid:
    """Where to measure. A network that holds few tokens has fewer points."""

    nodes: tuple[int, ...]
    short: int  # tokens of context; with ``longer`` ascending
    longer: tuple[int, ...]
    layers: int
    vocab_size: int

    @classmethod
    def fitting(cls, layers: int, vocab_size: int, slots: int) -> Grid:
        """The points for a network that can hold ``slots`` tokens of a text."""
        nodes = tuple(n for n in _NODES if n <= max(1, slots // 2))
        deep = max(0, min(_DEEP, slots - nodes[-1]))
        short = min(_SHORT, deep)
        return cls(nodes, short, tuple(c for c in (_MIDDLE, deep) if short < c <= deep), layers, vocab_size)

    @property
    def slots(self) -> int:
        """Slots a cache needs for every probe of one row."""
        return max(self.short, *self.longer, 0) + self.nodes[-1]

    @property
    def heads(self) -> tuple[int, ...]:
        """Vocabulary entries a restricted head may have, ascending; the last is the whole vocabulary."""
        return tuple(sorted({max(1, self.vocab_size // part) for part in (24, 6, 1)}))

    def levels(self) -> tuple[list[Probe], list[Probe], list[Probe]]:
        """The probes, those that say most first; cheap and dear points are spread over all levels."""
        *small, whole = self.heads
        deep, middle = self.longer[-1:], self.longer[:-1]
        first = [*self._steps(1), *self._head(whole, 1), *self._steps(8), *self._head(whole, 8)]
        first += self._reads(deep, 1, 8)
        second = [*self._steps(2, 4, 16), *self._head(whole, 2, 16), *self._reads(deep, 2, 16)]
        second += [*(p for entries in small for p in self._head(entries, 1)), *self._reads(middle, 1, 8), self.batch]
        third = [*self._steps(6, 12, 32), *self._head(whole, 32), *self._reads(middle, 2, 16), *self._reads(deep, 32)]
        third += [*(p for entries in small for p in self._head(entries, 8))]
        return first, second, third

    @property
    def batch(self) -> Probe:
        """Several rows of one node."""
        return Probe(Part.FULL, 1, self.short, _ROWS)

    def _steps(self, *nodes: int) -> list[Probe]:
        parts = (Part.FULL, Part.NONE, Part.ATTENTION)
        return [Probe(part, n, self.short) for n in nodes if n in self.nodes for part in parts]

    def _reads(self, contexts: Sequence[int], *nodes: int) -> list[Probe]:
        parts = (Part.ATTENTION, Part.NONE)
        return [Probe(part, n, c) for c in contexts for n in nodes if n in self.nodes for part in parts]

    def _head(self, entries: int, *nodes: int) -> list[Probe]:
        return [Probe(Part.HEAD, n, entries=entries) for n in nodes if n in self.nodes]


def cost_table(grid: Grid, ms: Mapping[Probe, float]) -> CostTable:
    """The table that follows from ``ms``, which holds at least the first probe. What was not measured is scaled."""
    return _Assembly(grid, ms).table()


@dataclass(frozen=True, slots=True)
class _Assembly:
    grid: Grid
    ms: Mapping[Probe, float]

    def table(self) -> CostTable:
        full, overhead, share = self.full(), self.overhead(), self.share()
        layers = [self.per_layer(full(n) - overhead(n, self.grid.short)) for n in full.at]
        attention = [layer * min(share(n), 1.0) for n, layer in zip(full.at, layers, strict=True)]
        mlp = [layer - attn for layer, attn in zip(layers, attention, strict=True)]
        return CostTable(
            layers=self.grid.layers,
            vocab_size=self.grid.vocab_size,
            overhead=overhead,
            attention=Curve(full.at, tuple(attention)),
            read=self.read(),
            row=self.row(full),
            mlp=Curve(full.at, tuple(mlp)),
            head=self.head(),
        )

    def at(self, part: Part, nodes: int, context: int) -> float | None:
        return self.ms.get(Probe(part, nodes, context))

    def per_layer(self, ms: float) -> float:
        return max(0.0, ms) / self.grid.layers

    def full(self) -> Curve:
        """A step without head, over nodes."""
        return _curve({n: self.at(Part.FULL, n, self.grid.short) for n in self.grid.nodes})

    def overhead(self) -> Surface:
        """A step without sublayers, over nodes and context."""
        contexts = (self.grid.short, *self.grid.longer)
        courses = {n: {c: self.at(Part.NONE, n, c) for c in contexts} for n in self.grid.nodes}
        return _surface(courses, default=0.0)

    def share(self) -> Curve:
        """What attention takes of a layer's time, over nodes; the MLP has the rest."""
        return _curve({n: self.attention_share(n) for n in self.grid.nodes}, default=_ATTENTION_SHARE)

    def attention_share(self, nodes: int) -> float | None:
        parts = (Part.FULL, Part.ATTENTION, Part.NONE)
        full, attention, none = (self.at(part, nodes, self.grid.short) for part in parts)
        if full is None or attention is None or none is None or full <= none:
            return None
        return min(1.0, max(0.0, attention - none) / (full - none))

    def read(self) -> Surface:
        """What a longer context adds to one attention sublayer, over nodes and context."""
        return _surface({n: self.read_course(n) for n in self.grid.nodes}, default=0.0)

    def read_course(self, nodes: int) -> Mapping[int, float]:
        """By context, never falling; empty where no longer context was measured."""
        own = {c: self.attentions(nodes, c) for c in (self.grid.short, *self.grid.longer)}
        base = own.pop(self.grid.short)
        added = {c: self.per_layer(ms - base) for c, ms in own.items() if ms is not None and base is not None}
        rising: Iterator[float] = accumulate(added.values(), max)
        return {self.grid.short: 0.0, **dict(zip(added, rising, strict=True))} if added else {}

    def attentions(self, nodes: int, context: int) -> float | None:
        """All attention sublayers together."""
        attention, none = (self.at(part, nodes, context) for part in (Part.ATTENTION, Part.NONE))
        return None if attention is None or none is None else attention - none

    def row(self, full: Curve) -> float:
        """What a further row adds to an attention sublayer, beyond its nodes."""
        batch = self.ms.get(self.grid.batch)
        return 0.0 if batch is None else self.per_layer(batch - full(_ROWS)) / (_ROWS - 1)

    def head(self) -> Surface:
        """Over vocabulary entries and nodes; if none was measured, as much as a layer."""
        courses = {
            entries: {n: self.ms.get(Probe(Part.HEAD, n, entries=entries)) for n in self.grid.nodes}
            for entries in self.grid.heads
        }
        return _surface(courses, default=self.per_layer(self.full()(1)))


def _curve(points: Mapping[int, float | None], default: float | None = None) -> Curve:
    known = {at: value for at, value in points.items() if value is not None}
    if not known and default is not None:
        return Curve((0,), (default,))
    return Curve(tuple(known), tuple(known.values()))


def _surface(courses: Mapping[int, Mapping[int, float | None]], default: float) -> Surface:
    curves = {at: _curve(course) for at, course in courses.items() if any(v is not None for v in course.values())}
    return Surface(tuple(curves), tuple(curves.values())) if curves else Surface((0,), (Curve((0,), (default,)),))
