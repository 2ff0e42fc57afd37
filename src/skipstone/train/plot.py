"""Agreement with the last layer by exit, of two models or of one before and after training, as an SVG picture."""

from __future__ import annotations

from collections.abc import Sequence

from .evaluate import ExitFigures, Figures

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 360, 56, 20, 40, 48
_GREY, _BLUE = "#888888", "#1f6fb4"


def agreement_svg(
    before: Figures, after: Figures, trained: Sequence[int], names: tuple[str, str] = ("before", "after")
) -> str:
    """Two lines over the exits 1..L, named; the exits that were trained have dots on the later one."""
    last = after.exits[-1].exit
    parts = [_frame(last), _line(before.exits, _GREY), _line(after.exits, _BLUE)]
    parts += [_dot(each, last) for each in after.exits if each.exit in trained]
    beside = _LEFT + 18 + 7 * len(names[0])
    parts += [_word(_LEFT, 20, names[0], _GREY), _word(beside, 20, f"{names[1]} (dots: trained exits)", _BLUE)]
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    style = 'font-family="sans-serif" font-size="12"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', *parts, "</svg>"]) + "\n"


def _x(exit_layer: int, layers: int) -> float:
    return _LEFT + (exit_layer - 1) / max(1, layers - 1) * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _TOP + (1 - share) * (_HEIGHT - _TOP - _BOTTOM)


def _line(exits: Sequence[ExitFigures], colour: str) -> str:
    points = " ".join(f"{_x(each.exit, exits[-1].exit):.1f},{_y(each.agreement):.1f}" for each in exits)
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _dot(each: ExitFigures, layers: int) -> str:
    return f'<circle cx="{_x(each.exit, layers):.1f}" cy="{_y(each.agreement):.1f}" r="3.5" fill="{_BLUE}"/>'


def _word(x: float, y: float, text: str, colour: str = "black", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{text}</text>'


def _frame(layers: int) -> str:
    """Lines at every quarter, numbers below at no more than about ten exits."""
    rows = [
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_y(share):.1f}" y2="{_y(share):.1f}" stroke="#dddddd"/>'
        + _word(_LEFT - 6, _y(share) + 4, f"{share:.0%}", anchor="end")
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    numbers = [
        _word(_x(number, layers), _HEIGHT - _BOTTOM + 18, str(number), anchor="middle")
        for number in range(1, layers + 1, 1 + layers // 10)
    ]
    below = _word(_WIDTH / 2, _HEIGHT - 8, "exit (layers run): choices equal to those of all layers", anchor="middle")
    return "\n".join([*rows, *numbers, below])
