"""A model with LoRA adapters as the one that they are for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def adapters_off(model: Any) -> Iterator[None]:
    """While this is open the adapters of ``model`` are off; one that has none runs as it is.

    peft marks every adapter as one that learns when it switches them on again: frozen ones are to stay frozen.
    """
    if not hasattr(model, "disable_adapter"):
        yield
        return
    learning = {name: weight.requires_grad for name, weight in model.named_parameters()}
    try:
        with model.disable_adapter():
            yield
    finally:
        for name, weight in model.named_parameters():
            weight.requires_grad_(learning[name])
