"""A Hugging Face decoder as a ``Network``: an own loop over the model's own submodules."""

from __future__ import annotations

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
        self.body = model.model
        self.layers = self.body.layers
        self.windows = self.wiring.windows(self.config)
        self.rotary = Rotary(self.body.rotary_emb, self.config)
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
        hidden: Tensor = self.body.embed_tokens(x) if plan.start == 0 else x
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
        normed = self.body.norm(hidden)
        if subset is None:
            return self.model.lm_head(normed)  # type: ignore[no-any-return]
        head = self.model.lm_head
        bias = head.bias[subset] if head.bias is not None else None
        return torch.nn.functional.linear(normed, head.weight[subset], bias)


def context_of(config: Any) -> int:
    """Tokens a text may have. Linear and dynamic rotary scaling stretch ``max_position_embeddings`` by their factor."""
    parameters = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    factor = parameters.get("factor", 1.0) if kind in ("linear", "dynamic") else 1.0
    return int(config.max_position_embeddings * (factor or 1.0))
