"""A cache as a graph sees it: written by slot numbers that lie in tensors, read up to a fixed extent."""

from __future__ import annotations

from torch import Tensor

from ..cache import KVCache, Placement, Write


class SlotCache(KVCache):
    """Another face of ``cache``: the same buffers and lengths, but nothing in ``write`` depends on numbers on the host.

    Holds the buffers, not the cache object, so that graphs end with the cache they were recorded for.
    """

    def __init__(self, cache: KVCache, row_numbers: Tensor, span: slice | None) -> None:
        """``row_numbers`` [B] int64 are the rows written; ``span`` the same where they are consecutive, for good."""
        vars(self).update(vars(cache))
        self.row_numbers = row_numbers
        self.span = span

    @staticmethod
    def fits(cache: KVCache) -> bool:
        """Whether ``cache`` keeps keys and values the way this class takes for granted."""
        return type(cache).write is KVCache.write and type(cache).writer is KVCache.writer

    def write(self, layer: int, placement: Placement, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """As KVCache.write: keys [B, heads, N, dim] in; keys and values [B, heads, placement.extent, dim] out."""
        return tuple(  # type: ignore[return-value]
            self._write(buffer[layer], placement, new) for buffer, new in ((self.keys, keys), (self.values, values))
        )

    def write_both(self, layer: int, placement: Placement, both: Tensor) -> tuple[Tensor, Tensor]:
        """As KVCache.write_both."""
        (buffer,) = self.both[layer]
        keys, values = self._write(buffer, placement, both).chunk(2, dim=1)
        return keys, values

    def writer(self, placement: Placement) -> Write:
        """As KVCache.writer."""
        return lambda layer, both: self.write_both(layer, placement, both)

    def _write(self, buffer: Tensor, placement: Placement, new: Tensor) -> Tensor:
        index = (self.row_numbers[:, None], placement.slots)
        # index_put_ converts nothing, and some models' keys are float32 whatever their weights are
        buffer.transpose(1, 2).index_put_(index, new.transpose(1, 2).to(buffer.dtype))
        readable = buffer[:, :, : placement.extent]
        return readable[self.span] if self.span is not None else readable.index_select(0, self.row_numbers)
