"""What a model is made of: parameters by kind of part, and which of them a decode step reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .body import body_of
from .wiring import Wiring

EMBEDDING, ATTENTION, MLP, EXPERTS, NORMS, HEAD, OTHER = (
    "embedding",
    "attention",
    "MLP",
    "experts",
    "norms",
    "LM head",
    "other parts",
)


@dataclass(frozen=True)
class Part:
    """``count`` parameters of one kind in ``layers`` layers; a decode step reads ``active`` of them.

    Of an embedding it looks up one row, unless that is the LM head, too.
    """

    kind: str
    layers: int
    count: int
    active: int


def anatomy(model: Any, wiring: Wiring, config: Any) -> list[Part]:
    """Every parameter once, in the order data flow. A head that shares the embedding has no parameters of its own."""
    counts: dict[str, int] = {}
    layers: dict[str, set[int]] = {}
    seen: set[int] = set()
    for kind, layer, weight in _kinds(model, wiring):
        if id(weight) not in seen:
            seen.add(id(weight))
            counts[kind] = counts.get(kind, 0) + weight.numel()
            layers.setdefault(kind, set()).update(() if layer is None else (layer,))
    used = {EXPERTS: experts_used(config), EMBEDDING: float(is_tied(model)), OTHER: 0.0}
    order = [kind for kind in (EMBEDDING, ATTENTION, MLP, EXPERTS, NORMS, HEAD, OTHER) if kind in counts]
    return [Part(kind, len(layers[kind]), counts[kind], round(counts[kind] * used.get(kind, 1.0))) for kind in order]


def _kinds(model: Any, wiring: Wiring) -> Iterator[tuple[str, int | None, Any]]:
    """Kind and layer of every parameter."""
    body, layers = body_of(model)
    owners = {id(layer): number for number, layer in enumerate(layers)}
    places: dict[int, tuple[str, int]] = {}
    for layer in layers:
        for name, weight in layer.named_parameters():
            places[id(weight)] = (_kind_in_layer(name, wiring), owners[id(layer)])
    ends = _ends(model)
    inside = {id(weight) for weight in body.parameters()}
    for _, weight in model.named_parameters():
        if id(weight) in places:
            yield (*places[id(weight)], weight)
        else:
            yield ends.get(id(weight), NORMS if id(weight) in inside else OTHER), None, weight


def _kind_in_layer(name: str, wiring: Wiring) -> str:
    first = name.split(".")[0]
    if first == wiring.attn:
        return ATTENTION
    if first in (wiring.mlp or "fc1+fc2").split("+"):
        return EXPERTS if ".experts." in f".{name}" else MLP
    return NORMS


def _ends(model: Any) -> Mapping[int, str]:
    head = {id(weight): HEAD for weight in model.get_output_embeddings().parameters()}
    return head | {id(weight): EMBEDDING for weight in model.get_input_embeddings().parameters()}


def is_tied(model: Any) -> bool:
    """Whether the LM head is the embedding."""
    return model.get_output_embeddings().weight is model.get_input_embeddings().weight


def experts_used(config: Any) -> float:
    """The part of the experts that one token runs through; 1 where there are none."""
    chosen = _first(config, "num_experts_per_tok", "moe_topk", "moe_top_k", "top_k_experts")
    among = _first(config, "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    return min(chosen / among, 1.0) if chosen and among else 1.0


def _first(config: Any, *names: str) -> int | None:
    values = (getattr(config, name, None) for name in names)
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def shape_of(wiring: Wiring) -> str:
    """The wiring's shape in a word."""
    if wiring.parallel:
        return "parallel"
    if wiring.after:
        return "norm after the sum"
    if wiring.attn_post is not None:
        return "sandwich norms" if wiring.attn_norm is not None else "post norms"
    return "serial"
