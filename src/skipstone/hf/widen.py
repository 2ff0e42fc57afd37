"""Modules in float64, for judging what rounding did."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def widened(module: Any) -> Any:
    """A float64 copy of a module; None stays None."""
    if module is None:
        return None
    wide = copy.deepcopy(module).double()
    for part in wide.modules():
        if getattr(getattr(part, "config", None), "_experts_implementation", None) is not None:
            part.config._experts_implementation = "eager"  # grouped products know no float64
    return wide


class Lazily(Sequence[T]):
    """``build`` of each item, made when asked for, so that one is in memory at a time."""

    def __init__(self, items: Sequence[Any], build: Callable[[Any], T]) -> None:
        self._items = items
        self._build = build

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._build(self._items[index])
