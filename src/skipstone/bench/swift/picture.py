"""Lines over the texts of a stream, as an SVG picture: one panel above another, one legend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any
from xml.sax.saxutils import escape

_WIDTH, _PANEL, _LEFT, _RIGHT, _TOP = 760, 240, 56, 190, 34
_COLOURS = ("#1f6fb4", "#d9541e", "#2a9d57", "#8e44ad", "#b8860b", "#c2185b", "#00838f", "#555555", "#7cb342")
_GREY = "#dddddd"
_STEPS = 4  # of a scale

Lines = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Panel:
    """``lines`` have a value for each text; the scale begins at 0."""

    title: str
    lines: Lines

    @property
    def top(self) -> float:
        return max((value for line in self.lines.values() for value in line), default=0.0) or 1.0


def panels_of(values: Mapping[str, Any]) -> list[Panel]:
    """What the parts ``stream`` and ``ablations`` found, as far as they ran."""
    found = []
    for model, drafters in (values.get("stream") or {}).items():
        lines = {name: [x for task in tasks.values() for x in task["speeds"]] for name, tasks in drafters.items()}
        tasks = ", ".join(next(iter(drafters.values())))
        found.append(Panel(f"{model}: speed over plain decoding, text by text ({tasks})", lines))
    ablations = values.get("ablations") or {}
    for key, title in (("speed", "speed over plain decoding"), ("matchness", "best matchness")):
        if ablations:
            found.append(Panel(f"swift, {title}, text by text", {name: each[key] for name, each in ablations.items()}))
    return found


def picture(panels: Sequence[Panel]) -> str:
    """An SVG document."""
    height = _PANEL * len(panels)
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    parts = [part for number, panel in enumerate(panels) for part in _drawn(panel, number * _PANEL)]
    style = 'font-family="sans-serif" font-size="12"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', *parts, "</svg>"]) + "\n"


def _drawn(panel: Panel, above: int) -> Iterator[str]:
    yield _word(_LEFT, above + 18, panel.title)
    for step in range(_STEPS + 1):
        y = _y(step / _STEPS, above)
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_GREY}"/>'
        yield _word(_LEFT - 6, y + 4, f"{panel.top * step / _STEPS:.2f}", anchor="end")
    for place, ((name, line), colour) in enumerate(zip(panel.lines.items(), cycle(_COLOURS), strict=False)):
        points = " ".join(f"{_x(n, len(line)):.1f},{_y(value / panel.top, above):.1f}" for n, value in enumerate(line))
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield _word(_WIDTH - _RIGHT + 12, above + _TOP + 12 + 18 * place, name, colour)


def _x(number: int, of: int) -> float:
    return _LEFT + number / max(1, of - 1) * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float, above: int) -> float:
    return above + _TOP + (1 - share) * (_PANEL - _TOP - 16)


def _word(x: float, y: float, text: str, colour: str = "black", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'
