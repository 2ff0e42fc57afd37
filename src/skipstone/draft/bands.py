"""How many choices to keep beside a drafted token, by how sure the draft is of it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from ..accept import Pick
from ..errors import UsageError


@dataclass(frozen=True)
class Bands:
    """SWIFT's dynamic verification: ``widths[i]`` choices where the first one's probability is within band i.

    Band i ends with ``edges[i]``, which belongs to it; the last one ends with 1.
    """

    widths: tuple[int, ...] = (10, 5, 3, 1)
    edges: tuple[float, ...] = (0.5, 0.8, 0.95)

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.widths) - 1 or min(self.widths) < 1:
            raise UsageError(f"bands {self.widths} at {self.edges}: use widths of 1 or more, and an edge between two")
        if not all(a < b for a, b in zip((0.0, *self.edges), (*self.edges, 1.0), strict=True)):
            raise UsageError(f"the bands' edges {self.edges} must rise between 0 and 1")

    def __call__(self, pick: Pick) -> int:
        return self.widths[bisect_left(self.edges, pick.confidence)]

    @property
    def widest(self) -> int:
        return max(self.widths)

    @classmethod
    def read(cls, widths: str, edges: str) -> Bands | None:
        """Bands written 10+5+3+1 and 0.5+0.8+0.95; "off" is None. Raises UsageError."""
        if widths == "off":
            return None
        try:
            return cls(tuple(map(int, widths.split("+"))), tuple(map(float, filter(None, edges.split("+")))))
        except ValueError:
            raise UsageError(
                f"bands={widths!r} at edges={edges!r} is not known: write 10+5+3+1 and 0.5+0.8+0.95, or bands=off"
            ) from None
