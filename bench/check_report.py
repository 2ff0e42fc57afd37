"""What a check found, on the screen and on disk as it goes."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import Any


class Report:
    """Parts by name, each a dictionary; the file is complete JSON after every part."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.began = perf_counter()
        self.parts: dict[str, dict[str, Any]] = {}

    def say(self, text: str) -> None:
        print(f"[{perf_counter() - self.began:6.1f} s] {text}", flush=True)

    def part(self, name: str) -> dict[str, Any]:
        return self.parts.setdefault(name, {})

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.parts, indent=1) + "\n")


def table(rows: list[dict[str, Any]]) -> str:
    """Rows of the same keys, aligned."""
    if not rows:
        return "(nothing)"
    lines = [list(rows[0]), *([_shown(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
