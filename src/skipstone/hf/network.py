"""A Hugging Face decoder as a ``Network``: an own loop over the model's own submodules."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..cache import KVCache, LayerShape, Placement
from ..errors import UnsupportedModel
from ..kernels.linear import WeightKind
from ..kernels.probe import kernel_for
from ..network import Run
from ..plan import LayerPlan
from .alibi import alibi_of
from .attention import AttentionCall, CacheView, ShapeProbe, View, additive, attention_arguments, masks_for
from .block_loop import run_blocks
from .body import body_of, check_supported
from .computing import computing
from .embedding import embedding_of
from .families import wirings_of
from .head import head_of
from .rotary import rope_parameters, rotaries_of
from .widen import Lazily, widened
from .windows import layer_kinds, windows_of
from .wiring import Block, Wiring, take_apart

_NO_LIMIT = 1 << 15  # for models that know distances only and name no limit (Bloom)


class HFNetwork:
    """Runs ``model`` (a transformers causal LM in eval mode) under layer plans; see ``Network`` for the contract.

    ``wiring`` overrides what the layers' names suggest, ``windows`` what one run of the model would show;
    ``finish=False`` leaves out what the text config would do to logits. Raises UnsupportedModel for what cannot be
    decoded with plans.
    """

    def __init__(
        self,
        model: Any,
        wiring: Wiring | None = None,
        finish: bool = True,
        windows: Sequence[int | None] | None = None,
    ) -> None:
        self.model = model
        self.config = model.config.get_text_config()
        check_supported(model, self.config)
        body, layers = body_of(model)
        self.layers: Sequence[Any] = layers
        self.num_layers = len(layers)
        self.wiring = wiring or wirings_of(layers[0], self.config)[0]
        self.blocks: Sequence[Block] = [take_apart(layer, self.wiring) for layer in layers]
        self.embedding = embedding_of(body, self.config)
        self.head = head_of(model, body, self.config, finish)
        self.kinds = layer_kinds(self.config, self.num_layers)
        self.rotaries = rotaries_of(body, self.config, self.kinds)
        self.alibi = alibi_of(body, self.config)
        self.arguments = attention_arguments(self.blocks[0].attn)
        self.vocab_size: int = self.head.linear.weight.shape[0]
        self.context: int = context_of(self.config)
        if self.context < 2:
            raise UnsupportedModel(f"a context of {self.context} tokens leaves no room to generate: it takes 2 or more")
        seen = windows_of(model, self.config, self.num_layers, self.context) if windows is None else list(windows)
        self.windows = seen
        self.dtype: torch.dtype = model.dtype
        self.device: torch.device = model.device
        self.kernel = kernel_for("stock")  # how linear layers hold them
        self.shapes = self._probe_shapes()

    @property
    def weights(self) -> WeightKind:
        """How linear layers hold their weights."""
        return self.kernel.kind

    def new_cache(self, rows: int, capacity: int) -> KVCache:
        return KVCache(self.shapes, rows, capacity, dtype=self.dtype, device=self.device)

    @computing
    def run(self, x: Tensor, placement: Placement, cache: KVCache, plan: LayerPlan, taps: Sequence[int] = ()) -> Run:
        plan.check(self.num_layers)
        hidden = self.embedding(x, placement.positions) if plan.start == 0 else x
        attend = self._attention(hidden, placement, CacheView(cache, placement))
        return run_blocks(self.blocks, hidden, plan, taps, attend)

    @computing
    def logits(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
        return self.head(hidden, subset)

    @computing
    def narrow_head(self, tokens: Tensor) -> Callable[[Tensor], Tensor]:
        return computing(self.head.narrowed(tokens, self.kernel))

    def in_float64(self) -> HFNetwork:
        """The same weights computed with in float64; layers are widened one at a time, as they run."""
        wide = copy.copy(self)
        wide.embedding, wide.head = self.embedding.in_float64(), self.head.in_float64()
        wide.blocks = Lazily(self.layers, lambda layer: take_apart(widened(layer), self.wiring))
        wide.dtype, wide.kernel = torch.float64, kernel_for("stock")
        return wide

    def _attention(self, hidden: Tensor, placement: Placement, view: View) -> AttentionCall:
        angles = {kind: r(hidden, placement) if r is not None else None for kind, r in self.rotaries.items()}
        if self.alibi is not None:
            masks: dict[int | None, Tensor | None] = {None: self.alibi.mask(placement, hidden.dtype)}
        else:
            masks = masks_for(placement, self.windows)
            if self.config._attn_implementation == "eager":
                masks = additive(masks, hidden.dtype)
        flag = None if self.alibi is None else hidden.new_zeros(1, 1, 1)
        return AttentionCall(view, self.arguments, self.kinds, self.windows, angles, masks, placement.positions, flag)

    @computing
    def _probe_shapes(self) -> list[LayerShape]:
        """One token through all layers shows what each would cache."""
        zero = torch.zeros(1, 1, dtype=torch.long, device=self.device)
        placement = Placement(
            (0,), (0,), zero, zero, zero + 1, torch.ones(1, 1, 1, dtype=torch.bool, device=self.device), zero, 1, True
        )
        probe = ShapeProbe()
        hidden = self.embedding(zero, zero)
        attend = self._attention(hidden, placement, probe)
        for block in self.blocks:
            hidden = block(hidden, True, True, attend)
        return [probe.shapes[layer] for layer in range(self.num_layers)]


def context_of(config: Any) -> int:
    """Tokens a text may have. Linear and dynamic rotary scaling stretch ``max_position_embeddings`` by their factor."""
    parameters = rope_parameters(config)
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    factor = parameters.get("factor", 1.0) if kind in ("linear", "dynamic") else 1.0
    longest = getattr(config, "max_position_embeddings", None) or _NO_LIMIT
    return int(longest * (factor or 1.0))
