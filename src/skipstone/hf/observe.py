"""What a model's own code lets each layer see, found out by running it once under an attention that only looks.

transformers lets anyone register an attention and the masks that go with it. Ours computes nothing: its masks note
which positions the model's mask function leaves visible at the far end of the context, and its attention notes which
layer got which mask. So a sliding window is measured, whatever configuration field it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

_NAME = "skipstone_observer"
OTHER: Final = -1  # a mask that is neither causal nor a sliding window


@dataclass
class Observation:
    """``windows[layer]``: None where the layer sees all before it, a number for a sliding window, OTHER for the rest.

    Layers that use no registered attention, or change the mask they are given, are missing.
    """

    length: int
    windows: dict[int, int | None] = field(default_factory=dict)
    masks: list[tuple[Tensor, int | None]] = field(default_factory=list)


_current: ContextVar[Observation] = ContextVar("observation")


@torch.inference_mode()
def observe(model: Any, config: Any, length: int) -> dict[int, int | None]:
    """The window of each layer of ``model``, whose text part has ``config``, for texts of up to ``length`` tokens."""
    observation = Observation(length)
    one = torch.ones(1, 1, dtype=torch.long, device=model.device)
    with _looking(config, observation):
        model(input_ids=one - 1, attention_mask=one, use_cache=False)
    return observation.windows


@contextmanager
def _looking(config: Any, observation: Observation) -> Iterator[None]:
    _register()
    before, token = config._attn_implementation, _current.set(observation)
    config._attn_implementation = _NAME
    try:
        yield
    finally:
        config._attn_implementation = before
        _current.reset(token)


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    interfaces: tuple[tuple[Any, Callable[..., Any]], ...] = (
        (AttentionInterface, _attention),
        (AttentionMaskInterface, _mask),
    )
    for interface, function in interfaces:
        interface.register(_NAME, function)


def _mask(*_: Any, mask_function: Any, device: Any = "cpu", **__: Any) -> Tensor:
    """A mask to recognise later; what it stands for is measured at the last two positions."""
    observation = _current.get()
    mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
    observation.masks.append((mask, _window(mask_function, observation.length, device)))
    return mask


def _window(mask_function: Any, length: int, device: Any) -> int | None:
    queries = torch.arange(max(length - 2, 0), length, device=device)[:, None]
    keys = torch.arange(length, device=device)
    zero = torch.zeros(1, 1, dtype=torch.long, device=device)
    visible = torch.as_tensor(mask_function(zero, zero, queries, keys), device=device).expand(len(queries), length)
    if torch.equal(visible, keys <= queries):
        return None
    window = int(visible[-1].sum())
    return window if torch.equal(visible, (keys <= queries) & (queries - keys < window)) else OTHER


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, *_: Any, **__: Any
) -> tuple[Tensor, None]:
    """Note the layer's mask; attend to nothing."""
    observation = _current.get()
    for mask, window in observation.masks:
        if attention_mask is mask:
            observation.windows[module.layer_idx] = window
    B, heads, N, _width = query.shape
    return query.new_zeros(B, N, heads, value.shape[-1]), None
