"""Assertions that stay when Python runs with -O."""

from __future__ import annotations


def claim(true: bool, sentence: str) -> None:
    """Raise AssertionError with ``sentence`` unless ``true``."""
    if not true:
        raise AssertionError(sentence)
