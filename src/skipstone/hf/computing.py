"""How numbers are computed whatever the caller has switched on: no gradients, no automatic change of number type."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def computing(function: Callable[P, T]) -> Callable[P, T]:
    """``function`` in inference mode and without autocast, which would change the numbers parity was seen with."""
    inferring = torch.inference_mode()(function)

    @wraps(function)
    def run(*args: P.args, **named: P.kwargs) -> T:
        if not torch.is_autocast_enabled("cpu") and not torch.is_autocast_enabled("cuda"):
            return inferring(*args, **named)
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            return inferring(*args, **named)

    return run
