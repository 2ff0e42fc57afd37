"""A planted model: which sublayers idle, and the draft that leaves out just these."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ...plan import LayerPlan
from .idle import Sublayers, hidden_places, put_in_order, silence


@dataclass(frozen=True)
class PlantedModel:
    """A transformers ``model`` whose ``idle`` sublayers add nothing, or ``leak`` of what they would.

    ``best`` is the cheapest plan whose drafts are always right (with a leak: mostly).
    """

    model: Any
    best: LayerPlan
    idle: Sublayers
    leak: float = 0.0

    @property
    def num_layers(self) -> int:
        return len(self.model.model.layers)

    @property
    def exits(self) -> range:
        """The layers at which a draft may end and still be right."""
        first = self.num_layers
        while first > 1 and first - 1 in self.idle.attn and first - 1 in self.idle.mlp:
            first -= 1
        return range(first, self.num_layers)

    def spec(self, depth: int, head: str = "") -> str:
        """The drafter of the best plan, ``depth`` tokens deep; ``head`` as the drafter's option, left out if empty."""
        if self.best.stop < self.num_layers:
            options = [f"layer={self.best.stop}"]
        else:
            options = [f"attn={_written(self.idle.attn)}", f"mlp={_written(self.idle.mlp)}"]
        options += [f"depth={depth}", *([f"head={head}"] if head else [])]
        return f"{'exit' if self.best.stop < self.num_layers else 'skip'}:{','.join(options)}"


def planted_skip(model: Any, idle: Sublayers, leak: float) -> PlantedModel:
    """``model`` with its ``idle`` sublayers silenced."""
    silence(model, idle, leak)
    return PlantedModel(model, LayerPlan.skipping(len(model.model.layers), idle.attn, idle.mlp), idle, leak)


def moved(planted: PlantedModel, seed: int) -> PlantedModel:
    """The same sublayers in the same order, with the idle ones at other places; ``planted.model`` itself is changed.

    Where whole layers idle, the text stays that of before. For models whose weights are not packed yet.
    Raises UsageError where single sublayers idle and layers differ in kind, as in windows.
    """
    idle = planted.idle
    count = planted.num_layers
    attn = hidden_places(count, len(idle.attn), seed)
    together = idle.attn == idle.mlp
    mlp = attn if together else hidden_places(count, len(idle.mlp), seed + 1)
    there = Sublayers(attn, mlp)
    put_in_order(planted.model, idle, there)
    return replace(planted, best=LayerPlan.skipping(count, attn, mlp), idle=there)


def _written(layers: Iterable[int]) -> str:
    """3+5+8, as drafters read it."""
    return "+".join(map(str, sorted(layers)))
