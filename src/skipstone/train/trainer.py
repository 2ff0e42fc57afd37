"""transformers' Trainer with the early-exit objective: optimizer, accumulation, checkpoints and devices are its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from ..errors import TrainingError
from .batch import stacked
from .data import Rows
from .objective import Objective, Place, Tally
from .sharded import fill_states, finite
from .starting import loaded


class LayerSkipTrainer(Trainer):
    """Overrides what the loss is and what is logged, and nothing else of Trainer.

    The loss is divided by the labels of all micro-batches and ranks of a step, so that neither accumulation nor the
    number of devices changes what is minimised.
    """

    def __init__(
        self,
        model: Any,
        args: TrainingArguments,
        objective: Objective,
        rows: Rows,
        callbacks: Sequence[TrainerCallback] = (),
    ) -> None:
        super().__init__(
            model=model,
            args=args,
            train_dataset=rows,
            data_collator=stacked,
            callbacks=[_FiniteGradients(), _Intervals(), *callbacks, _NoneTooMany()],
        )
        self.remove_callback(PrinterCallback)
        if self.is_fsdp_enabled:
            self.add_callback(_StatesOfAll())
        self.model_accepts_loss_kwargs = True  # whatever the model does, our loss takes the number of labels
        self.tally = Tally()
        self._objective = objective
        self.reading = False  # a checkpoint; stays so where it could not be read
        self._place = Place(-1, 0)

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The loss [] of one micro-batch, whose parts are [B, N]. Raises TrainingError where it is not finite."""
        inner = self.accelerator.unwrap_model(model)
        losses = self._objective(model, inner, inputs, self._next_place(), num_items_in_batch)
        self.tally.add(losses)
        total = losses.total
        if num_items_in_batch is not None and self.args.average_tokens_across_devices:
            total = total * self.accelerator.num_processes  # gradients are averaged over ranks, the labels were summed
        return (total, None) if return_outputs else total

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As Trainer does, but no step of a run that had all of its steps: then its weights are loaded alone."""
        try:
            return super().train(*args, **kwargs)
        except _AllDoneError:
            self.is_in_train = False
            self.control = self.callback_handler.on_train_end(self.args, self.state, self.control)
            return None

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """As any model folder: checkpoints have the names of the hub's files, which are not always those in memory.

        What Trainer does with them leaves out, without a word, what it does not find. Adapters and parts are its own.
        """
        self.reading = True
        if self.is_fsdp_enabled or not isinstance(self.model, PreTrainedModel):
            super()._load_from_checkpoint(resume_from_checkpoint, model)
        else:
            self.model.load_state_dict(loaded(Path(resume_from_checkpoint)).state_dict())
        self.reading = False

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        self.reading = True
        super()._load_optimizer_and_scheduler(checkpoint)
        self.reading = False

    def _load_rng_state(self, checkpoint: str | None) -> None:
        self.reading = True
        super()._load_rng_state(checkpoint)
        self.reading = False

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """With the labels of this process since the last time, as ``tokens``, and each exit's mean loss over them."""
        told: dict[str, Any] = dict(logs)
        if "loss" in logs:
            told.update(tokens=self.tally.tokens, exit_losses=self.tally.take())
        super().log(told, *args, **kwargs)

    def _next_place(self) -> Place:
        step = self.state.global_step
        number = self._place.micro_batch + 1 if self._place.step == step else 0
        of = getattr(self, "current_gradient_accumulation_steps", self.args.gradient_accumulation_steps)
        self._place = Place(step, number, self.args.process_index, of)
        return self._place


class _FiniteGradients(TrainerCallback):
    """A step with gradients that are not finite would spoil the weights, and the next checkpoint with them."""

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        gradients = [weight.grad for weight in kwargs["model"].parameters() if weight.grad is not None]
        if not finite(gradients, args.device):
            raise TrainingError(
                f"gradients at step {state.global_step + 1} are not finite: begin anew with a lower learning rate and "
                "another output, or look for weights and inputs that are not finite"
            )


class _Intervals(TrainerCallback):
    """Those of this run, not those that a checkpoint remembers; and a line of the log wherever a run may go on from."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        state.save_steps, state.logging_steps = args.save_steps, args.logging_steps

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_log |= control.should_save


class _AllDoneError(Exception):
    pass


class _NoneTooMany(TrainerCallback):
    """The last to be told: weights are loaded then, spread ones too. Trainer itself counts only after a step."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step >= args.max_steps:
            raise _AllDoneError


class _StatesOfAll(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        fill_states(kwargs["optimizer"])
