"""A plan drawn: a row for the attentions and a row for the MLPs, one mark for each layer."""

from __future__ import annotations

from ..plan import LayerPlan
from .canvas import LINE, Canvas, word_width
from .png import Colour

_MARKS, _PLAIN = ("█", "·"), ("#", ".")  # runs, is left out
_LABEL = 6  # characters before a row
_TENS = 10

_CELL, _GAP, _MARGIN = (16, 24), 2, 10  # pixels
_LEFT = _MARGIN + word_width("layer ")  # where the first layer begins
_ATTN, _MLP, _GONE = (37, 99, 235), (5, 150, 105), (203, 213, 225)
_RUN, _SKIPPED = "run", "skipped"


def drawn(plan: LayerPlan, width: int, encoding: str | None) -> str:
    """In lines of ``width`` characters, with a legend; in plain ASCII where the encoding has no blocks."""
    marks = _MARKS if _shows(encoding) else _PLAIN
    columns = max(width - _LABEL, _TENS)
    columns -= columns % _TENS
    parts = (range(start, min(start + columns, plan.stop)) for start in range(0, plan.stop, columns))
    return "\n\n".join([*(_lines(plan, part, marks) for part in parts), f"{marks[0]} {_RUN}  {marks[1]} {_SKIPPED}"])


def _lines(plan: LayerPlan, layers: range, marks: tuple[str, str]) -> str:
    numbers = "".join(str(layer).ljust(_TENS) for layer in layers[::_TENS])
    attn = "".join(marks[not plan.runs_attn(layer)] for layer in layers)
    mlp = "".join(marks[not plan.runs_mlp(layer)] for layer in layers)
    rows = (("layer", numbers.rstrip()), ("attn", attn), ("mlp", mlp))
    return "\n".join(f"{name:<{_LABEL}}{row}" for name, row in rows)


def _shows(encoding: str | None) -> bool:
    try:
        "".join(_MARKS).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def picture(plan: LayerPlan) -> bytes:
    """A PNG file: the numbers of layers, attentions, MLPs and a legend; what is left out is pale."""
    attn, mlp = _MARGIN + LINE, _MARGIN + LINE + _CELL[1] + _GAP  # where the rows begin
    legend = mlp + _CELL[1] + _MARGIN
    canvas = Canvas(max(_x(plan.stop), _legend_end()) + _MARGIN, legend + _CELL[1] + _MARGIN)
    canvas.write((_MARGIN, _MARGIN), "layer")
    for layer in range(0, plan.stop, 5):
        canvas.write((_x(layer), _MARGIN), str(layer))
    _row(canvas, attn, "attn", [_ATTN if plan.runs_attn(layer) else _GONE for layer in range(plan.stop)])
    _row(canvas, mlp, "mlp", [_MLP if plan.runs_mlp(layer) else _GONE for layer in range(plan.stop)])
    _legend(canvas, legend)
    return canvas.png()


def _x(layer: int) -> int:
    return _LEFT + layer * (_CELL[0] + _GAP)


def _row(canvas: Canvas, y: int, label: str, colours: list[Colour]) -> None:
    canvas.write((_MARGIN, _beside(y)), label)
    for layer, colour in enumerate(colours):
        canvas.fill((_x(layer), y), _CELL, colour)


def _beside(y: int) -> int:
    """Where a word begins that stands beside a cell."""
    return y + (_CELL[1] - LINE) // 2 + 1


def _legend(canvas: Canvas, y: int) -> None:
    """Two cells and a word for what runs, one cell and a word for what does not, in columns of the layers."""
    for column, colour in ((0, _ATTN), (1, _MLP), (_column(_RUN), _GONE)):
        canvas.fill((_x(column), y), _CELL, colour)
    canvas.write((_x(2) + _MARGIN, _beside(y)), _RUN)
    canvas.write((_x(_column(_RUN) + 1) + _MARGIN, _beside(y)), _SKIPPED)


def _column(word: str) -> int:
    """The first one free behind two cells and a word."""
    return 3 + (_MARGIN + word_width(word)) // (_CELL[0] + _GAP)


def _legend_end() -> int:
    return _x(_column(_RUN) + 1) + _MARGIN + word_width(_SKIPPED)
