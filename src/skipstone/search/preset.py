"""What a sweep over exits came to: the exit to draft with, how far, and what that showed."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageError
from ..plan import LayerPlan

MOST_WORDS = 999_999_999  # that a vocabulary could have


@dataclass(frozen=True, slots=True)
class ExitPreset:
    """Draft ``depth`` tokens with the first ``layer`` layers, ``width`` choices at each depth.

    ``head`` is "full", "auto" or how many words the draft's head knows. ``agreement``: the share of ``tokens`` output
    tokens that the exit chose as the target did. ``speed`` is over plain decoding, measured on the machine that asks;
    None where the preset was never measured there. Raises UsageError for numbers that no draft can have.
    """

    layer: int
    depth: int
    width: int = 1
    head: str = "full"
    agreement: float = 0.0
    tokens: int = 0
    speed: float | None = None

    def __post_init__(self) -> None:
        if self.layer < 1 or self.depth < 1 or self.width < 1:
            given = f"layer {self.layer}, depth {self.depth} and width {self.width}"
            raise UsageError(f"it drafts with {given}: each must be 1 or more")
        if self.head not in ("auto", "full") and not is_count(self.head):
            raise UsageError(f'it drafts with head "{self.head[:40]}": it must be auto, full or a number from 1 up')

    @property
    def plan(self) -> LayerPlan:
        """The layers that draft."""
        return LayerPlan.until(self.layer)


def is_count(text: str) -> bool:
    """Whether ``text`` writes a number from 1 to ``MOST_WORDS``."""
    return text.isdecimal() and len(text) <= len(str(MOST_WORDS)) and 1 <= int(text) <= MOST_WORDS
