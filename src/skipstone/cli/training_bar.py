"""A bar in a terminal, and lines elsewhere, that tell how far training is and how long it will take."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from transformers import TrainerCallback

_RECENT = 50  # steps that the estimate goes by


class TrainingBar(TrainerCallback):
    """The estimate is the mean of recent steps, checkpoints among them, times those to come.

    The first step counts for nothing: it warms up. Before there is a second one there is no estimate. ``evaluation``
    adds what evaluating at the end will take.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._ends: deque[float] = deque(maxlen=_RECENT + 1)
        self._loss = ""
        self._after = 0.0
        self._bar = Progress(
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: Any = None

    def __enter__(self) -> TrainingBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if sys.stderr.isatty():
            self._task = self._bar.add_task("", total=self._steps, completed=state.global_step)
            self._bar.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._ends.append(time.monotonic())
        if self._task is not None:
            self._bar.update(self._task, completed=state.global_step, description=self._news(state.global_step))

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        if not logs or "loss" not in logs:
            return
        self._loss = f"loss {logs['loss']:.3f}, "
        if self._task is None:
            print(
                f"step {state.global_step}/{self._steps}: {self._news(state.global_step)}", file=sys.stderr, flush=True
            )

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end()

    def _end(self) -> None:
        if self._task is not None:  # one that never began would leave an empty line
            self._bar.stop()

    def evaluation(self, seconds: float) -> None:
        self._after = seconds

    def _news(self, step: int) -> str:
        seconds = self.left(step)
        told = "no estimate yet" if seconds is None else f"about {timedelta(seconds=round(seconds))} left"
        return f"{self._loss}{told}"

    def left(self, step: int) -> float | None:
        """Seconds from the end of ``step`` to that of the run."""
        if len(self._ends) < 2:
            return None
        return (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1) * (self._steps - step) + self._after
