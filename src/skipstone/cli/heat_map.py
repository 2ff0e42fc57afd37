"""Speeds by exit and depth as a map: a table with coloured cells in the terminal, squares in a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from .png import Colour, png

Cells = Mapping[tuple[int, int], float]  # speed over plain decoding, by exit and depth

_CELL, _GAP = 24, 2  # pixels
_PAPER, _INK = (255, 255, 255), (15, 23, 42)
_SLOW, _EVEN, _FAST = (248, 113, 113), (248, 250, 252), (22, 163, 74)
_SLOWEST, _FASTEST = 0.5, 2.0  # beyond them the colour stays


def coloured(cells: Cells, exits: Sequence[int], depths: Sequence[int], marked: tuple[int, int] | None) -> Table:
    """A row for each exit, a column for each depth; ``marked`` is the place of the best."""
    table = Table(
        "exit",
        *map(str, depths),
        box=None,
        title="× plain decoding by exit and depth, at the best width",
        title_justify="left",
    )
    for layer in exits:
        table.add_row(str(layer), *(_cell(cells.get((layer, depth)), (layer, depth) == marked) for depth in depths))
    return table


def _cell(speed: float | None, best: bool) -> Text:
    if speed is None:
        return Text("")
    red, green, blue = colour(speed)
    return Text(
        f"{speed:.2f}{'*' if best else ' '}", style=f"{'bold ' if best else ''}black on rgb({red},{green},{blue})"
    )


def colour(speed: float) -> Colour:
    """Pale at 1, redder the slower, greener the faster."""
    if speed < 1:
        return _between(_EVEN, _SLOW, (1 - speed) / (1 - _SLOWEST))
    return _between(_EVEN, _FAST, (speed - 1) / (_FASTEST - 1))


def _between(start: Colour, end: Colour, share: float) -> Colour:
    share = min(max(share, 0.0), 1.0)
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(start, end, strict=True))
    return red, green, blue


def picture(cells: Cells, exits: Sequence[int], depths: Sequence[int], marked: tuple[int, int] | None) -> bytes:
    """A PNG file: exits from top to bottom, depths from left to right; the best has a frame, a place not tried none."""
    width = _GAP + len(depths) * (_CELL + _GAP)
    rows: list[Sequence[Colour]] = [[_PAPER] * width] * _GAP
    for layer in exits:
        squares = [_square(cells.get((layer, depth)), (layer, depth) == marked) for depth in depths]
        rows += [_line([square[number] for square in squares]) for number in range(_CELL)]
        rows += [[_PAPER] * width] * _GAP
    return png(rows)


def _line(parts: Sequence[Sequence[Colour]]) -> list[Colour]:
    """Pixels of several squares, with paper around each."""
    return [_PAPER] * _GAP + [pixel for part in parts for pixel in (*part, *[_PAPER] * _GAP)]


def _square(speed: float | None, framed: bool) -> list[list[Colour]]:
    fill = _PAPER if speed is None else colour(speed)
    square = [[fill] * _CELL for _ in range(_CELL)]
    if framed:
        square[0] = square[1] = square[-2] = square[-1] = [_INK] * _CELL
        for line in square[2:-2]:
            line[:2] = line[-2:] = [_INK] * 2
    return square
