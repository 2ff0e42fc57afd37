"""Who follows a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from transformers import TrainerCallback


def _nothing(_: object) -> None:
    pass


@dataclass(frozen=True)
class Watch:
    """Who is told of the run: lines of news, Trainer's callbacks, and the seconds that evaluating takes at its end."""

    say: Callable[[str], None] = _nothing
    callbacks: Sequence[TrainerCallback] = field(default=())
    timed: Callable[[float], None] = _nothing
