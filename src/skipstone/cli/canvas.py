"""Rectangles and words on paper, as a PNG file."""

from __future__ import annotations

from . import letters
from .png import Colour, png

SCALE = 2  # pixels for each of a letter's
LINE = SCALE * letters.HEIGHT  # the height of a word


class Canvas:
    """Places are pixels from the upper left corner; what lies beyond the paper is not drawn."""

    def __init__(self, width: int, height: int, paper: Colour = (255, 255, 255), ink: Colour = (15, 23, 42)) -> None:
        self.ink = ink
        self._rows = [[paper] * width for _ in range(height)]

    def fill(self, place: tuple[int, int], size: tuple[int, int], colour: Colour) -> None:
        """A rectangle of ``size`` (width, height) at ``place`` (x, y)."""
        (x, y), (width, height) = place, size
        for row in self._rows[y : y + height]:
            row[x : x + width] = [colour] * len(row[x : x + width])

    def write(self, place: tuple[int, int], text: str) -> None:
        """A word with its upper left corner at ``place``."""
        x, y = place
        for column, row in letters.dots(text):
            self.fill((x + SCALE * column, y + SCALE * row), (SCALE, SCALE), self.ink)

    def png(self) -> bytes:
        return png(self._rows)


def word_width(text: str) -> int:
    """Of a written word, in pixels."""
    return SCALE * letters.width(text)
