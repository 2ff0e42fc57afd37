"""A plan drawn: a row for the attentions and a row for the MLPs, one mark for each layer."""

from __future__ import annotations

from collections.abc import Iterable

from ..plan import LayerPlan
from .png import Colour, png

_MARKS, _PLAIN = ("█", "·"), ("#", ".")  # runs, is left out
_LABEL = 6  # characters before a row
_TENS = 10

_CELL, _GAP = 12, 2  # pixels
_ATTN, _MLP, _GONE, _PAPER = (37, 99, 235), (5, 150, 105), (226, 232, 240), (255, 255, 255)


def drawn(plan: LayerPlan, width: int, encoding: str | None) -> str:
    """In lines of ``width`` characters; in plain ASCII where the encoding has no blocks."""
    marks = _MARKS if _shows(encoding) else _PLAIN
    columns = max(width - _LABEL, _TENS)
    columns -= columns % _TENS
    parts = (range(start, min(start + columns, plan.stop)) for start in range(0, plan.stop, columns))
    return "\n\n".join(_lines(plan, part, marks) for part in parts)


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
    """A PNG file: attentions above, MLPs below; what is left out is pale."""
    attn = _row(_ATTN if plan.runs_attn(layer) else _GONE for layer in range(plan.stop))
    mlp = _row(_MLP if plan.runs_mlp(layer) else _GONE for layer in range(plan.stop))
    paper = [[_PAPER] * len(attn)] * _GAP
    return png([*paper, *[attn] * _CELL, *paper, *[mlp] * _CELL, *paper])


def _row(colours: Iterable[Colour]) -> list[Colour]:
    return [_PAPER] * _GAP + [pixel for colour in colours for pixel in [colour] * _CELL + [_PAPER] * _GAP]
