"""The serial families run by fused blocks: the same ``Network``, with fewer and larger operations."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..cache import KVCache, Placement
from ..kernels.linear import StockLinear, WeightKind, filled
from ..kernels.probe import kernel_for
from ..network import Run
from ..plan import LayerPlan
from .angles import AngleTable
from .attention import masks_for
from .block_loop import run_blocks
from .computing import computing
from .embedding import Embedding
from .fused_block import FusedBlock, Shape, Sight
from .head import Head
from .network import HFNetwork
from .widen import Lazily

_KEPT = 2  # heads of the first tokens


class FusedNetwork:
    """``generic`` says what model this is; blocks, head and embedding are our own."""

    def __init__(self, generic: HFNetwork, blocks: Sequence[FusedBlock], ends: tuple[Head, Embedding]) -> None:
        self.generic = generic
        self.model, self.config = generic.model, generic.config
        self.num_layers, self.vocab_size = generic.num_layers, generic.vocab_size
        self.context, self.windows = generic.context, generic.windows
        self.layers, self.wiring = generic.layers, generic.wiring
        self.device, self.dtype = generic.device, generic.dtype
        self.kernel = kernel_for("stock")
        self.blocks = blocks
        self.shape = blocks[0].attn.shape  # the same in all of them
        self.fewest = blocks[0].attn.qkv.fewest  # rows of a matrix: filled up once, not at each product
        self.head, self.embedding = ends
        self.frequent: dict[int, Callable[[Tensor], Tensor]] = {}  # heads of the first tokens, by how many
        self.tables = tables_of(generic, self.shape, self.dtype)

    @property
    def weights(self) -> WeightKind:
        """How linear layers hold their weights."""
        return self.kernel.kind

    def new_cache(self, rows: int, capacity: int) -> KVCache:
        return KVCache(self.generic.shapes, rows, capacity, dtype=self.dtype, device=self.device)

    @computing
    def run(self, x: Tensor, placement: Placement, cache: KVCache, plan: LayerPlan, taps: Sequence[int] = ()) -> Run:
        plan.check(self.num_layers)
        entered = self.embedding(x, placement.positions) if plan.start == 0 else x
        nodes = entered.reshape(-1, entered.shape[-1])
        run = run_blocks(self.blocks, filled(nodes, self.fewest), plan, taps, self._sight(placement, cache))
        shown = {tap: x[: len(nodes)].view(entered.shape) for tap, x in run.taps.items()}
        return Run(run.hidden[: len(nodes)].view(entered.shape), shown)

    @computing
    def logits(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
        return self.head(hidden, subset)

    @computing
    def narrow_head(self, tokens: Tensor) -> Callable[[Tensor], Tensor]:
        """That of the first tokens is kept, since every text drafts with the same one."""
        size = len(tokens)
        if not torch.equal(tokens, torch.arange(size, device=tokens.device)):
            return computing(self.head.narrowed(tokens, self.kernel))
        found = self.frequent.get(size)
        if found is None:
            found = computing(self.head.narrowed(tokens, self.kernel))
            newest = list(self.frequent.items())[1 - _KEPT :]
            self.frequent = {**dict(newest), size: found}
        return found

    def in_float64(self) -> FusedNetwork:
        """The same weights computed with in float64; blocks are widened one at a time, as they run."""
        wide = copy.copy(self)
        wide.blocks = Lazily(self.blocks, FusedBlock.in_float64)
        wide.embedding, wide.head = self.embedding.in_float64(), self.head.in_float64()
        wide.dtype, wide.kernel, wide.frequent = torch.float64, kernel_for("stock"), {}
        wide.fewest = StockLinear.fewest
        wide.tables = tables_of(self.generic, self.shape, wide.dtype)
        return wide

    def _sight(self, placement: Placement, cache: KVCache) -> Sight:
        rows, nodes = placement.positions.shape
        masks = {
            window: None if mask is None else _additive(mask, self.dtype)
            for window, mask in masks_for(placement, self.generic.windows).items()
        }
        angles = {kind: _by_row(table(placement), rows) for kind, table in self.tables.items()}
        return Sight((rows, nodes), cache.writer(placement), angles, masks)


def _by_row(angles: tuple[Tensor, Tensor], rows: int) -> tuple[Tensor, Tensor]:
    """cos and sin as [B, N, heads, D], from [R, heads, D]."""
    cos, sin = (part.unflatten(0, (rows, -1)) for part in angles)
    return cos, sin


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)


def tables_of(network: HFNetwork, shape: Shape, dtype: torch.dtype) -> dict[str, AngleTable]:
    """The angles of each kind of layer that has any."""
    heads = (shape.heads + shape.kv_heads, shape.kv_heads)
    found = network.rotaries.items()
    return {kind: AngleTable(rotary, heads, dtype, network.context) for kind, rotary in found if rotary is not None}
