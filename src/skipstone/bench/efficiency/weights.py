"""What was asked for must be what ran: a figure of float16 weights is none where a machine has no kernel for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...network import Network
from .part import Absent, CannotMeasure, why

T = TypeVar("T")


def as_asked(network: Network, kind: str) -> Network:
    """``network``; raises CannotMeasure where its weights were to be float16 and are not."""
    ran = getattr(network, "weights", kind)
    if kind == "float16" and ran != kind:
        raise CannotMeasure(f"this machine has no kernel for float16 weights: they would run as {ran}")
    return network


def or_absent(measured: Callable[[], T]) -> T | Absent:
    """What it gives, or why it cannot be had: figures of other weights are to be there all the same."""
    try:
        return measured()
    except CannotMeasure as error:
        return Absent(why(error))
