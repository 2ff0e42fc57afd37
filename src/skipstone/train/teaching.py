"""Where a teacher's hidden states come from: the starting model, kept beside the one in training or inside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from .adapters_off import adapters_off
from .batch import plain, run
from .early_exit_loss import EarlyExitLoss
from .forward import exits
from .targets import Teacher


class Teaching(Protocol):
    def __call__(self, batch: Mapping[str, Tensor]) -> Teacher:
        """The teacher for a batch, [B, N] each of its parts."""
        ...


@dataclass(frozen=True)
class Start:
    """The starting model itself, a second model in memory. ``share`` of the loss is the teacher's.

    With ``bfloat16`` its layers have products of that type, as accelerate sees to in the model in training alone.
    """

    model: Any
    share: float
    temperature: float = 1.0
    bfloat16: bool = False

    def __call__(self, batch: Mapping[str, Tensor]) -> Teacher:
        device = batch["input_ids"].device
        self.model.to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.bfloat16):
            return _teacher(self.model, self, batch)


@dataclass(frozen=True)
class WithoutAdapters:
    """With LoRA the starting model is the one in training with its adapters off: no second one is needed."""

    model: Any  # of peft
    share: float
    temperature: float = 1.0

    def __call__(self, batch: Mapping[str, Tensor]) -> Teacher:
        with adapters_off(self.model), _at_rest(self.model):
            return _teacher(self.model, self, batch)


def _teacher(model: Any, how: Start | WithoutAdapters, batch: Mapping[str, Tensor]) -> Teacher:
    """The model as a whole is called, as FSDP needs it."""
    network = plain(model)
    last = network.config.get_text_config().num_hidden_layers - 1
    with torch.no_grad(), exits(network, [last]) as hidden:
        run(model, network, batch)
    return Teacher(hidden[last], EarlyExitLoss.of(network).head, how.temperature, label_share=1 - how.share)


@contextmanager
def _at_rest(model: Any) -> Iterator[None]:
    """Out of training mode, so that no dropout of the model's own plays a part."""
    was = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was)
