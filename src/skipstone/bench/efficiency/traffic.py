"""The bytes of weights a run reads: at batch 1 memory bandwidth bounds what any engine can reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ...plan import LayerPlan
from ..timing import Clock, seconds

_ITEM = {"float32": 4, "float16": 2, "bfloat16": 2}
_PROBE = 1 << 26  # float32 numbers, far more than caches hold


@dataclass(frozen=True)
class Traffic:
    """Bytes of the weights of each layer's attention and MLP, of the LM head, and of each of its rows."""

    attn: tuple[int, ...]
    mlp: tuple[int, ...]
    head: int
    row: int

    @property
    def full(self) -> int:
        """Of a plain step."""
        return self.of(LayerPlan.full(len(self.attn)))

    def of(self, plan: LayerPlan, head: bool | int = True) -> int:
        """Of one run of a plan, whatever its nodes; ``head`` as in ``cost.Step``."""
        layers = range(plan.start, plan.stop)
        attn = sum(self.attn[n] for n in layers if plan.runs_attn(n))
        mlp = sum(self.mlp[n] for n in layers if plan.runs_mlp(n))
        return attn + mlp + (self.head if head is True else int(head) * self.row)


def traffic_of(network: Any) -> Traffic:
    """Counted on an empty model of the same configuration, as packing has taken the weights out of the real one."""
    model = empty_model(network)
    item = _ITEM.get(network.weights, network.dtype.itemsize)
    layers = model.model.layers
    head = model.get_output_embeddings().weight
    return Traffic(
        tuple(item * _count(layer.self_attn) for layer in layers),
        tuple(item * _count(layer.mlp) for layer in layers),
        item * head.numel(),
        item * head.shape[1],
    )


def empty_model(network: Any) -> Any:
    """The shapes of the model behind ``network``, and no numbers."""
    from accelerate import init_empty_weights
    from transformers import AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM
    with init_empty_weights():
        model = auto.from_config(network.config)
    model.tie_weights()
    return model


def _count(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def bandwidth(clock: Clock, repeats: int) -> float:
    """Bytes a second that all threads together read from memory, at best."""
    numbers = torch.ones(_PROBE)
    best = min(seconds(lambda: numbers.sum().item(), clock) for _ in range(max(repeats, 1)))
    return numbers.numel() * numbers.element_size() / best if best > 0 else float("inf")
