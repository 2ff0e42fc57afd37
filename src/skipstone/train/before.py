"""Figures of the start, taken once the model is on its devices and before the first step."""

from __future__ import annotations

from math import inf, isfinite
from time import monotonic
from typing import Any

from transformers import TrainerCallback

from ..errors import UsageError
from .adapters_off import adapters_off
from .batch import plain
from .data import Rows
from .evaluate import Figures, evaluate
from .run_folder import RunFolder
from .watch import Watch


class Before(TrainerCallback):
    """Kept in the run's folder for a run that goes on: then the model is no longer what it was."""

    def __init__(self, place: RunFolder, rows: Rows, batch: int, watch: Watch, guessing: float = inf) -> None:
        """``guessing`` is the loss of a model that knows nothing: one that is not better is told."""
        self._place = place
        self._rows = rows
        self._batch = batch
        self._watch = watch
        self._guessing = guessing
        self._figures: Figures | None = None

    @property
    def figures(self) -> Figures:
        """Once training has begun."""
        if self._figures is None:
            raise RuntimeError("figures of the start are asked for before training has begun")
        return self._figures

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        layers = plain(kwargs["model"]).config.get_text_config().num_hidden_layers
        self._figures = self._place.before(layers) or self._found(kwargs["model"], args.process_index == 0)
        self._watch.timed(self._place.evaluation_seconds())

    def _found(self, model: Any, first: bool) -> Figures:
        self._watch.say("evaluating every exit before training")
        began = monotonic()
        with adapters_off(model):  # the start is the model that an adapter is for, also where one goes on
            figures = evaluate(model, self._rows, self._batch)
        if not isfinite(figures.last_loss):
            raise UsageError(
                f"the model begins with a loss of {figures.last_loss}: it has weights that are not finite, or "
                "too large; nothing was trained"
            )
        if figures.last_loss >= self._guessing:
            self._watch.say(
                f"the model begins with a loss of {figures.last_loss:.2f}, no better than guessing "
                f"({self._guessing:.2f}): see whether its weights, its tokenizer and the data belong together"
            )
        if first:
            self._place.keep(figures, monotonic() - began)
        return figures
