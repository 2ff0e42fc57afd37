"""Training on a CPU keeps the memory of one step for the next, in large pages."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ..hf.memory import keep_freed, use_large_pages

_SETTLED = 2  # steps after which nothing new is allocated


class MemoryKept(TrainerCallback):
    """Of the first process, which does nothing else. What it is worth: docs/lab-log.md. Numbers stay the same."""

    def __init__(self) -> None:
        self._steps = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if args.device.type == "cpu":
            keep_freed()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._steps += 1
        if self._steps == _SETTLED and args.device.type == "cpu":
            use_large_pages()
