"""Texts that are generated together, read one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .generation import Piece


def in_order(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces of the first text as they come, those of the others once it is their turn."""
    waiting: dict[int, list[Piece]] = {}
    turn = 0
    for piece in pieces:
        waiting.setdefault(piece.index, []).append(piece)
        while ready := waiting.pop(turn, []):
            yield from ready
            turn += ready[-1].generation is not None
