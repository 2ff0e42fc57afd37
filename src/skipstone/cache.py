"""Keys and values of every row in one static buffer a layer: committed slots below ``lengths[row]``, scratch above.

Rollback is doing nothing: what lies above a row's length does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from .errors import CapacityError, UsageError
from .tree import Topology

# (layer, keys and values of the nodes [B, 2 * heads, N, dim]) -> all keys and all values to be read
Write = Callable[[int, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Placement:
    """Where N nodes of B chosen rows go, and what they see."""

    rows: tuple[int, ...]  # B rows of the cache
    first: tuple[int, ...]  # B: the row's nodes take the slots first .. first + N - 1
    slots: Tensor  # [B, N] int64
    positions: Tensor  # [B, N] int64
    reach: Tensor  # [B, N] int64: the text length at which plain decoding would have run the node (rotary scaling)
    visible: Tensor  # [B, N, extent] bool
    key_positions: Tensor  # [B, extent] int64: the position each slot holds; sliding windows are cut with it
    extent: int  # attention reads this many slots, never the whole capacity
    unmasked: bool = False  # known on the host: every row has one node, which sees every slot up to ``extent``
    last: int | None = None  # known on the host: no position is beyond it; None where it may be any

    @cached_property
    def span(self) -> slice | None:
        """The rows as a slice where they are consecutive (attention then reads the cache without copying)."""
        start = self.rows[0]
        return (
            slice(start, start + len(self.rows)) if self.rows == tuple(range(start, start + len(self.rows))) else None
        )


@dataclass(frozen=True)
class LayerShape:
    """Keys and values of one layer: ``heads`` key/value heads, widths of one key and one value."""

    heads: int
    key_dim: int
    value_dim: int

    @property
    def buffers(self) -> list[tuple[int, int]]:
        """(heads, dim) of what holds them: one buffer, the keys' heads first, where keys and values are as wide."""
        if self.key_dim == self.value_dim:
            return [(2 * self.heads, self.key_dim)]
        return [(self.heads, self.key_dim), (self.heads, self.value_dim)]


class KVCache:
    """Static key/value buffers [rows, heads, capacity, dim], one pair a layer.

    ``lengths[row]`` counts committed slots; slot i of a row holds position i. ``prompt_lengths[row]`` is what rotary
    scalings that depend on length take for prompt nodes (see Placement.reach).
    """

    def __init__(
        self, layers: Sequence[LayerShape], rows: int, capacity: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        if rows < 1 or capacity < 1:
            raise CapacityError(
                f"a cache of {rows} rows and {capacity} slots cannot hold anything: use 1 or more of each"
            )
        self.shapes = tuple(layers)
        # zeros, not empty: a masked slot still meets a weight of 0, and 0 x NaN is NaN
        zeros = partial(torch.zeros, dtype=dtype, device=device)
        if len(set(layers)) == 1 and len(layers[0].buffers) == 1:  # one tensor: views of all layers at once
            heads, dim = layers[0].buffers[0]
            self._layers: Tensor | None = zeros(len(layers), rows, heads, capacity, dim)
            self.both: list[tuple[Tensor, ...]] = [(layer,) for layer in self._layers.unbind()]
        else:
            self._layers = None
            self.both = [tuple(zeros(rows, h, capacity, dim) for h, dim in shape.buffers) for shape in layers]
        self.keys = [both[0][:, : shape.heads] for both, shape in zip(self.both, layers, strict=True)]
        self.values = [both[-1][:, -shape.heads :] for both, shape in zip(self.both, layers, strict=True)]
        self.rows = rows
        self.capacity = capacity
        self.device = device
        self.lengths = [0] * rows
        self.prompt_lengths = [0] * rows

    def place(
        self, topology: Topology, rows: Sequence[int], *, after: int = 0, prefix: Tensor | None = None
    ) -> Placement:
        """Place nodes ``after`` .. N-1 of ``topology`` in the scratch of ``rows``; the nodes before them ran already.

        ``prefix`` [B, N] is how many committed slots each node sees and the position of its root, by default all of
        them (a replay of committed tokens gives less). Changes nothing. Raises CapacityError if a row lacks the slots.
        """
        lengths = [self.lengths[r] for r in rows]
        total = len(topology)
        extent = max(lengths) + total
        if extent > self.capacity:
            raise CapacityError(
                f"{total} nodes after {max(lengths)} committed tokens exceed the cache's {self.capacity} slots"
            )
        base = torch.tensor(lengths).unsqueeze(1)
        seen = base.expand(-1, total) if prefix is None else prefix.cpu()
        depth_positions = seen + topology.depths
        key_positions = torch.arange(extent).repeat(len(rows), 1)
        visible = torch.arange(extent) < seen[:, after:, None]
        for b, length in enumerate(lengths):
            key_positions[b, length : length + total] = depth_positions[b]
            visible[b, :, length : length + total] = topology.ancestors[after:]
        positions = depth_positions[:, after:]
        prompts = torch.tensor([self.prompt_lengths[r] for r in rows]).unsqueeze(1)
        return Placement(
            rows=tuple(rows),
            first=tuple(length + after for length in lengths),
            slots=(base + torch.arange(after, total)).to(self.device),
            positions=positions.to(self.device),
            reach=torch.maximum(positions + 1, prompts).to(self.device),
            visible=visible.to(self.device),
            key_positions=key_positions.to(self.device),
            extent=extent,
            unmasked=total == 1 and prefix is None and min(lengths) == max(lengths),
            last=int(positions.max()),
        )

    def write(self, layer: int, placement: Placement, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put keys [B, heads, N, dim] and values of the placed nodes into their slots; return what attention reads.

        Returns keys and values [B, heads, extent, dim] of the placed rows: views where the rows are consecutive.
        """
        nodes = keys.shape[2]
        for b, (row, first) in enumerate(zip(placement.rows, placement.first, strict=True)):
            self.keys[layer][row, :, first : first + nodes] = keys[b]
            self.values[layer][row, :, first : first + nodes] = values[b]
        rows = placement.span if placement.span is not None else list(placement.rows)
        keys, values = (part[layer][:, :, : placement.extent] for part in (self.keys, self.values))
        return keys[rows], values[rows]

    def write_both(self, layer: int, placement: Placement, both: Tensor) -> tuple[Tensor, Tensor]:
        """``write`` for keys and values of one width in one tensor [B, 2 * heads, N, dim], the keys' heads first."""
        (buffer,) = self.both[layer]
        nodes = both.shape[2]
        for b, (row, first) in enumerate(zip(placement.rows, placement.first, strict=True)):
            buffer[row].narrow(1, first, nodes).copy_(both[b])
        span = placement.span
        readable = buffer.narrow(2, 0, placement.extent)[span if span is not None else list(placement.rows)]
        keys, values = readable.chunk(2, dim=1)
        return keys, values

    def writer(self, placement: Placement) -> Write:
        """``write_both`` for the layers of one run; what does not depend on the layer is done once."""
        if self._layers is None or placement.span is None:
            return lambda layer, both: self.write_both(layer, placement, both)
        nodes = placement.positions.shape[1]
        readable = self._layers[:, placement.span]
        if len(set(placement.first)) == 1:  # all rows at once
            targets = [(part,) for part in readable.narrow(3, placement.first[0], nodes).unbind()]
        else:
            taken = enumerate(placement.first)
            targets = list(
                zip(*(readable[:, b : b + 1].narrow(3, first, nodes).unbind() for b, first in taken), strict=True)
            )
        keys, values = (part.unbind() for part in readable.narrow(3, 0, placement.extent).chunk(2, dim=2))

        def write(layer: int, both: Tensor) -> tuple[Tensor, Tensor]:
            parts = (both,) if len(targets[layer]) == 1 else both.split_with_sizes([1] * len(both))
            for target, part in zip(targets[layer], parts, strict=True):
                target.copy_(part)
            return keys[layer], values[layer]

        return write

    def commit(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Make the nodes ``paths[b]`` (root first, each the child of the one before) of row ``rows[b]`` final.

        A path of consecutive nodes 0, 1, 2 … lies where it belongs and moves nothing.
        """
        for row, path in zip(rows, paths, strict=True):
            if list(path) != list(range(len(path))):
                self._move(row, path)
            self.lengths[row] += len(path)

    def _move(self, row: int, path: Sequence[int]) -> None:
        start = self.lengths[row]
        source = start + torch.tensor(path, device=self.device)
        for buffer in self._of_row(row):
            buffer[..., start : start + len(path), :] = buffer[..., source, :]

    def _of_row(self, row: int) -> list[Tensor]:
        """All keys and values of a row [.., capacity, dim]: of all layers at once where they are alike."""
        if self._layers is not None:
            return [self._layers[:, row]]
        return [buffer[row] for buffer in (*self.keys, *self.values)]

    def truncate(self, row: int, length: int) -> None:
        """Forget all but the first ``length`` committed slots of a row."""
        if not 0 <= length <= self.lengths[row]:
            raise UsageError(f"cannot truncate row {row} of {self.lengths[row]} committed slots to {length}")
        self.lengths[row] = length

    def reset(self, row: int, prompt_length: int = 0) -> None:
        """Empty a row for a text whose prompt has ``prompt_length`` tokens."""
        self.lengths[row] = 0
        self.prompt_lengths[row] = prompt_length

    def wipe(self, row: int) -> None:
        """Overwrite a row that may hold numbers that are not finite: masked or not, they would spoil later texts."""
        for buffer in self._of_row(row):
            buffer.zero_()

    def clear(self, row: int) -> None:
        """Overwrite a row's scratch: what is not finite there would reach all who read that far, masked or not."""
        for buffer in self._of_row(row):
            buffer[..., self.lengths[row] :, :] = 0

    def fork(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` committed slots of ``source`` to ``target``, which then holds just these."""
        if not 0 <= length <= self.lengths[source]:
            raise UsageError(f"cannot fork {length} slots of row {source}, which has {self.lengths[source]}")
        for buffer in (*self.keys, *self.values):
            buffer[target, :, :length] = buffer[source, :, :length]
        self.lengths[target] = length
        self.prompt_lengths[target] = self.prompt_lengths[source]
