"""A Hugging Face decoder as a ``Network``: an own loop over the model's own submodules."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..cache import KVCache, LayerShape, Placement
from ..errors import UnsupportedModel
from ..network import Run
from ..plan import LayerPlan
from .attention import AttentionCall, CacheView, cache_keyword, masks_for
from .rotary import Rotary
from .wiring import wiring_of


class HFNetwork:
    """Runs ``model`` (a transformers causal LM in eval mode) under layer plans; see ``Network`` for the contract."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.config = model.config
        self.wiring = wiring_of(self.config.model_type)
        body = model.model
        self.embed, self.norm, self.head = body.embed_tokens, body.norm, model.lm_head
        self.layers: Sequence[Any] = body.layers
        self.windows = self.wiring.windows(self.config)
        self.rotary = Rotary(body.rotary_emb, self.config)
        self.keyword = cache_keyword(self.layers[0].self_attn) if len(self.layers) else "cache"
        self.num_layers: int = len(self.layers)
        self.vocab_size: int = self.config.vocab_size
        self.context: int = context_of(self.config)
        self.dtype: torch.dtype = model.dtype
        self.device: torch.device = model.device
        if not self.num_layers:
            raise UnsupportedModel("the model has no layers: there is nothing to run")

    def new_cache(self, rows: int, capacity: int) -> KVCache:
        config = self.config
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = LayerShape(config.num_key_value_heads, width, width)
        return KVCache([shape] * self.num_layers, rows, capacity, dtype=self.dtype, device=self.device)

    @torch.inference_mode()
    def run(self, x: Tensor, placement: Placement, cache: KVCache, plan: LayerPlan, taps: Sequence[int] = ()) -> Run:
        plan.check(self.num_layers)
        hidden: Tensor = self.embed(x) if plan.start == 0 else x
        attend = AttentionCall(
            CacheView(cache, placement),
            self.rotary(hidden, placement),
            masks_for(placement, self.windows),
            self.windows,
            self.keyword,
        )
        tapped: dict[int, Tensor] = {}
        for index in range(plan.start, plan.stop):
            if index in taps:
                tapped[index] = hidden
            hidden = self.wiring.block(self.layers[index], hidden, plan, index, attend)
        if plan.stop in taps:
            tapped[plan.stop] = hidden
        return Run(hidden, tapped)

    @torch.inference_mode()
    def logits(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
        normed = self.norm(hidden)
        if subset is None:
            return self.head(normed)  # type: ignore[no-any-return]
        bias = self.head.bias[subset] if self.head.bias is not None else None
        return torch.nn.functional.linear(normed, self.head.weight[subset], bias)

    def in_float64(self) -> HFNetwork:
        """The same weights computed with in float64; layers are widened one at a time, as they run."""
        wide = copy.copy(self)
        wide.embed, wide.norm, wide.head = (_widened(part) for part in (self.embed, self.norm, self.head))
        wide.layers = _WidenedLayers(self.layers)
        wide.dtype = torch.float64
        return wide


class _WidenedLayers(Sequence[Any]):
    """Layers in float64, one in memory at a time."""

    def __init__(self, layers: Sequence[Any]) -> None:
        self._layers = layers

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, index: Any) -> Any:
        return _widened(self._layers[index])


def _widened(module: Any) -> Any:
    return copy.deepcopy(module).double()


def context_of(config: Any) -> int:
    """Tokens a text may have. Linear and dynamic rotary scaling stretch ``max_position_embeddings`` by their factor."""
    parameters = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    factor = parameters.get("factor", 1.0) if kind in ("linear", "dynamic") else 1.0
    return int(config.max_position_embeddings * (factor or 1.0))
