"""Rotary angles per node, from the model's own module.

Scalings that depend on length (dynamic, longrope) take their frequencies from the highest position of the whole call:
a longer draft or a longer neighbour would change a node's angles. Here every node gets those of the length at which
plain decoding would have run it (Placement.reach), by calling the module once for each group of nodes that agree.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..cache import Placement

Angles = tuple[Tensor, Tensor]  # cos and sin, each [B, N, D]


class Rotary:
    """The angles of one kind of layer. ``module`` is the model's rotary embedding; some ask for the kind of layer."""

    def __init__(self, module: Any, parameters: Mapping[str, Any], config: Any, kind: str | None = None) -> None:
        self.module = module
        self.more = {} if kind is None else {"layer_type": kind}
        self.scaling: str = parameters.get("rope_type", parameters.get("type", "default")) or "default"
        self.original: int = config.max_position_embeddings
        if self.scaling == "longrope":  # the dynamic modules read max_position_embeddings alone
            self.original = (
                parameters.get("original_max_position_embeddings")
                or getattr(config, "original_max_position_embeddings", None)
                or config.max_position_embeddings
            )

    def __call__(self, x: Tensor, placement: Placement) -> Angles:
        """Angles for the placed nodes in the dtype and on the device of ``x``."""
        if self.scaling == "longrope":
            return self._grouped(x, placement, (placement.reach > self.original).long())
        if "dynamic" in self.scaling:
            return self._grouped(x, placement, placement.reach * (placement.reach > self.original))
        return self._call(x, placement.positions)

    def _grouped(self, x: Tensor, placement: Placement, group: Tensor) -> Angles:
        keys = group.unique().tolist()
        if len(keys) == 1:
            return self._at_length(x, placement.positions, int(placement.reach.max()))
        cos, sin = self._at_length(x, placement.positions, int(placement.reach[group == keys[0]].max()))
        for key in keys[1:]:
            members = group == key
            of_key = self._at_length(x, placement.positions, int(placement.reach[members].max()))
            cos = torch.where(members[..., None], of_key[0], cos)
            sin = torch.where(members[..., None], of_key[1], sin)
        return cos, sin

    def _at_length(self, x: Tensor, positions: Tensor, length: int) -> Angles:
        """Angles as in a call whose highest position is ``length - 1``; meaningless for positions beyond that."""
        self._call(x, positions.new_zeros(1, 1))  # a short call makes the module forget a longer one before
        last = positions.new_full((len(positions), 1), length - 1)
        cos, sin = self._call(x, torch.cat([positions.clamp(max=length - 1), last], dim=1))
        return cos[:, :-1], sin[:, :-1]

    def _call(self, x: Tensor, positions: Tensor) -> Angles:
        cos, sin = self.module(x, positions, **self.more)
        return cos, sin


def rotaries_of(body: Any, config: Any, kinds: list[str]) -> dict[str, Rotary | None]:
    """The rotary embedding of each kind of layer; None where the model has none."""
    return {kind: _rotary(body, config, kind) for kind in dict.fromkeys(kinds)}


def _rotary(body: Any, config: Any, kind: str) -> Rotary | None:
    module = getattr(body, "rotary_emb", None)
    if module is None:
        return None
    parameters = rope_parameters(config)
    if "layer_type" in inspect.signature(module.forward).parameters and kind in parameters:
        return Rotary(module, parameters[kind], config, kind)
    local = getattr(body, "rotary_emb_local", None)  # gemma3 before transformers 5
    if local is not None and kind == "sliding_attention":
        return Rotary(local, {}, config)
    return Rotary(module, parameters, config)


def rope_parameters(config: Any) -> dict[str, Any]:
    """``rope_parameters``, ``rope_scaling`` before transformers 5; one for each kind of layer in some models."""
    return getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
