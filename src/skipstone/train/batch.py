"""A batch of rows through a model, with what its forward pass takes of them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import transformers
from torch import Tensor

from .data import Row

# model types that make no mask out of position ids, and some more that began to with transformers 5
_TOGETHER = ("afmoe", "biogpt", "bloom", "gpt_oss", "granitemoehybrid", "opt")
_LATER_APART = ("falcon", "granitemoe", "granitemoeshared", "nemotron", "olmoe", "persimmon", "stablelm")


def packed_together(model_type: str) -> bool:
    """Whether texts of a row see those before them in a model of this type."""
    old = int(transformers.__version__.partition(".")[0]) < 5
    return model_type in _TOGETHER or (old and model_type in _LATER_APART)


def stacked(rows: Sequence[Row]) -> dict[str, Tensor]:
    """[B, N] of each part of the rows."""
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def plain(model: Any) -> Any:
    """The transformers model itself, with its adapters if it has any."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def run(model: Any, inner: Any, batch: Mapping[str, Tensor]) -> None:
    """Call ``model``, which is ``inner`` or wraps it, for what ``exits`` takes of it: one position has logits.

    Documents packed in a row do not see each other: transformers reads it off the position ids. In the few types where
    it does not they are one text to the model, with positions that go on.
    """
    accepted = inspect.signature(inner.forward).parameters
    wanted = {"position_ids": batch["position_ids"], "use_cache": False, "logits_to_keep": 1}
    if packed_together(inner.config.get_text_config().model_type):
        del wanted["position_ids"]
    named = {name for name in wanted if name in accepted}
    if any(each.kind is each.VAR_KEYWORD for each in accepted.values()):
        named.add("use_cache")  # some hand it on by no name; with a cache no mask is made out of position ids
    model(input_ids=batch["input_ids"], **{name: value for name, value in wanted.items() if name in named})
