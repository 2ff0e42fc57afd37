"""Rotary angles per node, from the model's own module.

Scalings that depend on length (dynamic, longrope) take their frequencies from the highest position of the whole call:
a longer draft or a longer neighbour would change a node's angles. Here every node gets those of the length at which
plain decoding would have run it (Placement.reach), by calling the module once for each group of nodes that agree.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from ..cache import Placement

Angles = Tensor | tuple[Tensor, ...]  # cos and sin, each [B, N, D]; complex numbers [B, N, D / 2] in some models


class Rotary:
    """The angles of one kind of layer. ``module`` is the model's rotary embedding; some ask for the kind of layer."""

    def __init__(self, module: Any, parameters: Mapping[str, Any], config: Any, kind: str | None = None) -> None:
        self.module = module
        self.more = {} if kind is None else {"layer_type": kind}
        self.axes = 3 if "mrope_section" in parameters else 0  # of images; text has the same position on all of them
        self.scaling: str = parameters.get("rope_type", parameters.get("type", "default")) or "default"
        self._turn = Lock()  # such a module changes its frequencies in place, and threads may share it
        self.original: int = config.max_position_embeddings
        if self.scaling == "longrope":  # the dynamic modules read max_position_embeddings alone
            self.original = (
                parameters.get("original_max_position_embeddings")
                or getattr(config, "original_max_position_embeddings", None)
                or config.max_position_embeddings
            )

    def __getstate__(self) -> dict[str, Any]:
        """A copy of the model has a lock of its own."""
        return {name: value for name, value in vars(self).items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _turn=Lock())

    @property
    def by_position(self) -> bool:
        """Whether the angles of a node depend on its position alone, on no length."""
        return self.scaling != "longrope" and "dynamic" not in self.scaling

    def __call__(self, x: Tensor, placement: Placement) -> Angles:
        """Angles for the placed nodes in the dtype and on the device of ``x``, as the model's attention takes them."""
        parts = self._parts(x, placement)
        return parts if len(parts) > 1 else parts[0]

    def _parts(self, x: Tensor, placement: Placement) -> tuple[Tensor, ...]:
        if self.scaling == "longrope":
            return self._grouped(x, placement, (placement.reach > self.original).long())
        if "dynamic" in self.scaling:
            return self._grouped(x, placement, placement.reach * (placement.reach > self.original))
        return self._call(x, placement.positions)

    def _grouped(self, x: Tensor, placement: Placement, group: Tensor) -> tuple[Tensor, ...]:
        with self._turn:
            return self._by_group(x, placement, group)

    def _by_group(self, x: Tensor, placement: Placement, group: Tensor) -> tuple[Tensor, ...]:
        keys = group.unique().tolist()
        if len(keys) == 1:
            return self._at_length(x, placement.positions, int(placement.reach.max()))
        parts = self._at_length(x, placement.positions, int(placement.reach[group == keys[0]].max()))
        for key in keys[1:]:
            members = group == key
            of_key = self._at_length(x, placement.positions, int(placement.reach[members].max()))
            parts = tuple(torch.where(members[..., None], new, old) for new, old in zip(of_key, parts, strict=True))
        return parts

    def _at_length(self, x: Tensor, positions: Tensor, length: int) -> tuple[Tensor, ...]:
        """Angles as in a call whose highest position is ``length - 1``; meaningless for positions beyond that."""
        self._call(x, positions.new_zeros(1, 1))  # a short call makes the module forget a longer one before
        last = positions.new_full((len(positions), 1), length - 1)
        parts = self._call(x, torch.cat([positions.clamp(max=length - 1), last], dim=1))
        return tuple(part[..., :-1, :] for part in parts)

    def _call(self, x: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        if self.axes:
            positions = positions[None].expand(self.axes, -1, -1)
        angles = self.module(x, positions, **self.more)
        return angles if isinstance(angles, tuple) else (angles,)


def rotaries_of(body: Any, config: Any, kinds: list[str]) -> dict[str, Rotary | None]:
    """The rotary embedding of each kind of layer; None where the model has none."""
    return {kind: _rotary(body, config, kind) for kind in dict.fromkeys(kinds)}


def _rotary(body: Any, config: Any, kind: str) -> Rotary | None:
    old = _before_5(body, config, kind)
    if old is not None:
        return old
    module = getattr(body, "rotary_emb", None)
    if module is None:
        return None
    parameters = rope_parameters(config)
    if "layer_type" in inspect.signature(module.forward).parameters and kind in parameters:
        return Rotary(module, parameters[kind], config, kind)
    return Rotary(module, parameters, config)


def _before_5(body: Any, config: Any, kind: str) -> Rotary | None:
    """Before transformers 5 gemma3 and olmo3 had a second module, without scaling, for their sliding layers."""
    modules: Any = getattr(body, "rotary_embs", None) or {"sliding_attention": getattr(body, "rotary_emb_local", None)}
    if kind not in modules or modules[kind] is None:
        return None
    return Rotary(modules[kind], {} if kind == "sliding_attention" else rope_parameters(config), config)


def rope_parameters(config: Any) -> dict[str, Any]:
    """``rope_parameters``, ``rope_scaling`` before transformers 5; one for each kind of layer in some models."""
    return getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
