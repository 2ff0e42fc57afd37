"""A whole training run: from a recipe and a model folder to a trained model with its figures."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainingArguments

from ..errors import StoreError, TrainingError, UsageError
from ..hf.placing import pick_device
from ..hf.quiet import hushed, quiet
from ..hf.tokenizer import HFTokenizer
from .data import Rows, read_rows, split
from .evaluate import Figures, evaluate
from .objective import Objective, Rhythm
from .recipe import Plan, Recipe
from .result import Trained
from .run_folder import Keeper, RunFolder
from .starting import check_fit, start, text_config_of
from .teaching import Start, Teaching, WithoutAdapters
from .trainer import LayerSkipTrainer

_TORCH_CANNOT_WRITE = ("PytorchStreamWriter", "inline_container")  # where the disk is full
_HELD_OUT = 0.05  # of the rows, where no evaluation data are given


def _nothing(_: str) -> None:
    pass


@dataclass(frozen=True)
class Watch:
    """Who is told of the run: lines of news, and Trainer's callbacks."""

    say: Callable[[str], None] = _nothing
    callbacks: Sequence[TrainerCallback] = field(default=())


def train(recipe: Recipe, folder: Path, *, base: str = "", resume: bool = False, watch: Watch | None = None) -> Trained:
    """Train the model of ``folder``; ``base`` is its name for an adapter's config, the folder's path unless given.

    Everything is checked before the first step. What a run needs to go on after a kill lies in ``<output>.run``.
    Raises UsageError and ModelError for what cannot be trained, TrainingError where a loss is not finite.
    """
    return _Run.prepared(recipe, folder, resume, watch or Watch()).carried_out(base or str(folder.resolve()))


@dataclass(frozen=True)
class _Run:
    recipe: Recipe
    plan: Plan
    tokenizer: HFTokenizer
    data: Rows
    held_out: Rows
    trainer: LayerSkipTrainer
    place: RunFolder
    checkpoint: Path | None
    watch: Watch

    @classmethod
    def prepared(cls, recipe: Recipe, folder: Path, resume: bool, watch: Watch) -> _Run:
        config, tokenizer = text_config_of(folder), HFTokenizer.load(folder)
        plan = recipe.plan(config.num_hidden_layers)
        check_fit(recipe, config, tokenizer)
        place = RunFolder.beside(Path(recipe.output).expanduser())
        args = _arguments(recipe, place)
        watch = watch if args.process_index == 0 else Watch()
        data, held_out = _rows(recipe, tokenizer)
        watch.say(f"data: {data.told()}; {len(held_out)} rows held out for evaluation")
        checkpoint = _opened(place, recipe, resume, args)
        model = start(recipe, folder)
        objective = Objective(plan.curriculum, plan.dropout, plan.weights, _teaching(recipe, model), _rhythm(recipe))
        trainer = LayerSkipTrainer(model, args, objective, data, [Keeper(place), *watch.callbacks])
        _check_whole(trainer)
        return cls(recipe, plan, tokenizer, data, held_out, trainer, place, checkpoint, watch)

    def carried_out(self, base: str) -> Trained:
        before = self._before()
        self._train()
        self.watch.say("evaluating every exit after training")
        after = self._evaluated()
        main = self.trainer.is_world_process_zero()
        return Trained(self._model, self.tokenizer, self.plan.trained, before, after, self._about(), base, main)

    @property
    def _model(self) -> Any:
        return self.trainer.model

    def _before(self) -> Figures:
        """Of the start, kept for a run that goes on: then the model is no longer what it was."""
        known = self.place.before()
        if known is not None:
            return known
        self.watch.say("evaluating every exit before training")
        found = self._evaluated()
        if self.trainer.is_world_process_zero():
            self.place.keep(found)
        return found

    def _evaluated(self) -> Figures:
        return evaluate(self._model, self.held_out, self.recipe.batch)

    def _train(self) -> None:
        if self.checkpoint is not None:
            self.watch.say(f"going on from {self.checkpoint}")
        try:
            with hushed():
                self.trainer.train(resume_from_checkpoint=None if self.checkpoint is None else str(self.checkpoint))
        except TrainingError as error:
            last = self.place.last()
            kept = f"the last good state is {last}" if last else "no checkpoint was written before"
            raise TrainingError(f"{error}; stopped at step {self.trainer.state.global_step + 1}, {kept}") from error
        except RuntimeError as error:
            if not any(word in str(error) for word in _TORCH_CANNOT_WRITE):
                raise
            raise StoreError(
                f"a checkpoint could not be written to {self.place.path}: free some space on the disk, and resume; the "
                "one before is whole"
            ) from error

    def _about(self) -> dict[str, Any]:
        data = {"rows": len(self.data), "samples": self.data.samples, "empty": self.data.empty}
        counts = {"over_long": self.data.over_long, "labelled_tokens": self.data.labelled}
        held = {"held_out_rows": len(self.held_out)}
        log = [entry for entry in self.trainer.state.log_history if "loss" in entry]
        return {"recipe": self.recipe.to_json(), "data": {**data, **counts, **held}, "log": log}


def _rows(recipe: Recipe, tokenizer: HFTokenizer) -> tuple[Rows, Rows]:
    rows = read_rows(recipe.data, tokenizer, recipe.length, recipe.seed)
    if not recipe.eval_data:
        return split(rows, _HELD_OUT, recipe.eval_rows)
    held = read_rows(recipe.eval_data, tokenizer, recipe.length, recipe.seed)
    return rows, held.first(recipe.eval_rows)


def _teaching(recipe: Recipe, model: Any) -> Teaching | None:
    if not recipe.distil:
        return None
    if recipe.lora_rank:
        return WithoutAdapters(model, recipe.distil)
    return Start(copy.deepcopy(model).requires_grad_(False).eval(), recipe.distil)


def _rhythm(recipe: Recipe) -> Rhythm:
    return Rhythm(recipe.agreement, recipe.last_every)


def _check_whole(trainer: LayerSkipTrainer) -> None:
    """The loss uses norm and head outside of the model's forward pass, where FSDP has taken them apart."""
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        raise UsageError(
            "weights spread over devices (FSDP, DeepSpeed) cannot be trained yet: use torchrun without them, where "
            "each device holds the whole model, or lora_rank for less memory"
        )


def _opened(place: RunFolder, recipe: Recipe, resume: bool, args: TrainingArguments) -> Path | None:
    """By the first process, before the others look."""
    with args.main_process_first(local=False):
        return place.open(recipe, resume) if args.process_index == 0 else place.last()


def _arguments(recipe: Recipe, place: RunFolder) -> TrainingArguments:
    device = pick_device(recipe.device)
    if device.index:
        raise UsageError(f"training on {device}: give cuda, and choose a GPU with CUDA_VISIBLE_DEVICES")
    with quiet():
        args = TrainingArguments(
            output_dir=str(place.path),
            max_steps=recipe.steps,
            per_device_train_batch_size=recipe.batch,
            gradient_accumulation_steps=recipe.accumulation,
            learning_rate=recipe.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=recipe.warmup,
            weight_decay=recipe.weight_decay,
            seed=recipe.seed,
            data_seed=recipe.seed,
            save_steps=recipe.save_every,
            save_total_limit=2,
            logging_steps=min(recipe.log_every, recipe.steps),
            logging_nan_inf_filter=False,  # a loss that is not finite is an error, not the mean of the others
            gradient_checkpointing=recipe.checkpointing,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            bf16=_in_bfloat16(recipe, device),
            use_cpu=device.type == "cpu",
            ddp_find_unused_parameters=True,  # a layer that all samples leave out has no gradients
            remove_unused_columns=False,
            dataloader_pin_memory=False,
            disable_tqdm=True,
            report_to=[],
        )
    if args.n_gpu > 1:
        raise UsageError(
            f"{args.n_gpu} GPUs in one process: start a process for each with torchrun, or choose a GPU with "
            "CUDA_VISIBLE_DEVICES"
        )
    return args


def _in_bfloat16(recipe: Recipe, device: torch.device) -> bool:
    if recipe.precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported()
    return recipe.precision == "bfloat16"
