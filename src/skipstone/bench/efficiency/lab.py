"""What every part measures with: models, a clock, and how much effort to take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from ...network import Network
from ..planted import Shape
from ..timing import Clock, Rounds


class Models(Protocol):
    """The real model, in all the ways parts want it. What is not there raises a SkipstoneError."""

    @property
    def name(self) -> str: ...

    @property
    def where(self) -> dict[str, Any]:
        """Arguments with which another process can ``skipstone.load`` it."""
        ...

    def ours(self, weights: str) -> Network:
        """Our network, packed as ``weights``; the same object each time."""
        ...

    def theirs(self) -> Any:
        """The transformers model in float32; the same object each time."""
        ...

    def fresh(self) -> Any:
        """A transformers model of the caller's own, to change and to pack."""
        ...

    def prompts(self) -> Sequence[Sequence[int]]:
        """Token ids of prompts of about 50 to 250 tokens."""
        ...

    def encode(self, text: str) -> list[int]:
        """Token ids of a text."""
        ...


# a Llama of about a billion parameters
_BILLION = Shape(16, 2048, 8192, 32, 8, 128256, tied=True)


@dataclass(frozen=True)
class Effort:
    """Sizes and repeats. ``steps`` is how often a single run is timed for one median."""

    rounds: Rounds = field(default_factory=lambda: Rounds(9, 240.0, 5))
    steps: int = 11
    new_tokens: int = 64
    answer: int = 128  # new tokens where whole texts are compared
    cycles: int = 16  # of drafting in one timed text
    depth: int = 5
    exit_layer: int = 3
    shape: Shape = field(default_factory=Shape)  # of the planted exit model
    skip_shape: Shape = field(default_factory=lambda: Shape(24))  # of the planted skip model where no real one is there
    large: Shape = field(default_factory=lambda: _BILLION)
    added: int = 30  # idle layers that a real model grows by
    head: int = 4096  # tokens of a restricted draft head
    nodes: tuple[int, ...] = (1, 2, 4, 6, 8, 12, 16)
    context: int = 256
    # at which predictions of the cost model are judged; most of them are measured nowhere
    between: tuple[int, ...] = (1, 3, 5, 7, 11, 16)
    contexts: tuple[int, ...] = (64, 300, 1000, 2048)
    task_prompts: int = 3  # of each task of a stream
    stream: Rounds = field(default_factory=lambda: Rounds(100, 600.0, 10))  # texts of a stream, one by one
    timeout_s: float = 280.0  # of another process
    calibration_s: float = 2.0
    quick_only: bool = False  # the figures mean nothing

    @classmethod
    def quick(cls) -> Effort:
        """Seconds in all, to see that everything runs; the figures mean nothing."""
        tiny = Shape(6, 32, 48, 4, 2, 64, 256)
        return cls(
            rounds=Rounds(2, 20.0),
            steps=2,
            new_tokens=12,
            answer=6,
            cycles=2,
            shape=tiny,
            skip_shape=tiny,
            large=tiny,
            added=2,
            head=32,
            context=32,
            between=(1, 3),
            contexts=(8, 60),
            task_prompts=1,
            stream=Rounds(2, 20.0),
            timeout_s=60.0,
            calibration_s=0.2,
            quick_only=True,
        )


def _nobody(line: str) -> None:
    pass


@dataclass(frozen=True)
class Lab:
    """``rivals`` allows other libraries to be fetched into ``cache`` (None: the user's)."""

    models: Models
    effort: Effort = field(default_factory=Effort)
    tell: Callable[[str], None] = _nobody
    clock: Clock = perf_counter
    rivals: bool = False
    cache: Path | None = None

    def share(self, among: int) -> Lab:
        """The same for one of several measurements that a part makes: with its share of the time."""
        rounds = self.effort.rounds
        return replace(self, effort=replace(self.effort, rounds=replace(rounds, budget_s=rounds.budget_s / among)))
