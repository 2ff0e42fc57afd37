"""A whole training run: from a recipe and a model folder to a trained model with its figures."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.api import CheckpointException
from transformers import TrainingArguments

from ..errors import StoreError, TrainingError, UsageError, out_of_memory
from ..hf.checkpoint import read_checkpoint
from ..hf.fingerprint import fingerprint
from ..hf.quiet import hushed
from ..hf.reason import reason
from ..hf.tokenizer import HFTokenizer
from .arguments import arguments, check_spread
from .before import Before
from .data import Rows, read_rows, split
from .evaluate import Figures, evaluate
from .objective import Objective, Rhythm
from .recipe import Plan, Recipe
from .result import Base, Trained
from .run_folder import Keeper, RunFolder
from .sharded import alike, gathered
from .starting import adapter_doubt, check_fit, doubts, settings_digest, start, text_config_of
from .teaching import Start, Teaching, WithoutAdapters
from .trainer import LayerSkipTrainer
from .watch import Watch

_TORCH_CANNOT_WRITE = ("PytorchStreamWriter", "unexpected pos", "No space left")  # where the disk is full
_HELD_OUT = 0.05  # of the rows, where no evaluation data are given


def train(
    recipe: Recipe,
    folder: Path,
    *,
    base: Base | None = None,
    resume: bool = False,
    offline: bool = False,
    watch: Watch | None = None,
) -> Trained:
    """As ``training``, for a result that is to be written after the run has been given up to others, or not at all."""
    with training(recipe, folder, base=base, resume=resume, offline=offline, watch=watch) as trained:
        pass
    return trained


@contextmanager
def training(
    recipe: Recipe,
    folder: Path,
    *,
    base: Base | None = None,
    resume: bool = False,
    offline: bool = False,
    watch: Watch | None = None,
) -> Iterator[Trained]:
    """Train the model of ``folder``; ``base`` is its name for an adapter's config, the folder's path unless given.

    ``offline`` looks for data sets in the cache alone.

    Everything is checked before the first step. What a run needs to go on after a kill lies in ``<output>.run``, which
    no other process goes on with until the block ends: that is when to write the result.
    Raises UsageError and ModelError for what cannot be trained, TrainingError where a loss is not finite.
    """
    place = RunFolder.beside(Path(recipe.output).expanduser())
    args = arguments(recipe, place.path)
    with place.held() if args.process_index == 0 else nullcontext():
        run = _Run.prepared(recipe, folder, (place, args), resume, offline, watch or Watch())
        yield run.carried_out(base or Base(str(folder.resolve())))


@dataclass(frozen=True)
class _Run:
    recipe: Recipe
    folder: Path
    plan: Plan
    tokenizer: HFTokenizer
    data: Rows
    held_out: Rows
    trainer: LayerSkipTrainer
    before: Before
    place: RunFolder
    checkpoint: Path | None
    watch: Watch

    @classmethod
    def prepared(
        cls,
        recipe: Recipe,
        folder: Path,
        where: tuple[RunFolder, TrainingArguments],
        resume: bool,
        offline: bool,
        watch: Watch,
    ) -> _Run:
        place, args = where
        config, tokenizer = text_config_of(folder), HFTokenizer.load(folder)
        plan = recipe.plan(config.num_hidden_layers)
        check_fit(recipe, config, tokenizer)
        watch = watch if args.process_index == 0 else Watch()
        for doubt in filter(None, (*doubts(folder, tokenizer), adapter_doubt(recipe))):
            watch.say(doubt)
        data, held_out = _rows(recipe, tokenizer, offline)
        watch.say(f"data: {data.told()}; {len(held_out)} rows held out for evaluation")
        checkpoint = _opened(place, recipe, _facts(recipe, folder, (data, held_out), args), resume, args)
        if resume and checkpoint is None:
            watch.say(f"nothing to go on with in {place.path}: begins at step 0")
        model = start(recipe, folder)
        objective = Objective(
            plan.curriculum, plan.dropout, plan.weights, _teaching(recipe, model, args.bf16), _rhythm(recipe)
        )
        before = Before(place, held_out, recipe.batch, watch, _guessing(recipe, config.vocab_size))
        trainer = LayerSkipTrainer(model, args, objective, data, [before, Keeper(place), *watch.callbacks])
        check_spread(trainer, recipe.fsdp)
        return cls(recipe, folder, plan, tokenizer, data, held_out, trainer, before, place, checkpoint, watch)

    def carried_out(self, base: Base) -> Trained:
        self._train()
        self.watch.say("evaluating every exit after training")
        after = evaluate(self.trainer.model, self.held_out, self.recipe.batch)
        self._check_finite(after)
        before, main = self.before.figures, self.trainer.is_world_process_zero()
        model = self._whole_model()
        return Trained(model, self.tokenizer, self.plan.trained, before, after, self._about(), base, main)

    def _check_finite(self, after: Figures) -> None:
        """The last step has no loss of its own behind it that would tell."""
        for each in after.exits:
            if not math.isfinite(each.loss):
                raise TrainingError(
                    f"after training the loss of exit {each.exit} is {each.loss}, and nothing was written: lower the "
                    f"learning rate, and choose another output to begin anew; {self._kept()}"
                )

    def _kept(self) -> str:
        """Which checkpoint can be relied on: a state that a later step found a loss of is no spoilt one."""
        last, good = self.place.last(), self.place.last(before=self.trainer.state.global_step)
        if last is None:
            return "no checkpoint was written before"
        if last == good:
            return f"the last good state is {good}"
        kept = f"the last good state is {good}" if good else "there is none before it"
        return f"the state in {last} may be spoilt, {kept}"

    def _whole_model(self) -> Any:
        """On the first process, which saves; where weights are spread, a model of its own that has all of them."""
        if not self.trainer.is_fsdp_enabled:
            return self.trainer.model
        weights = gathered(self.trainer.accelerator, self.trainer.model)
        if not self.trainer.is_world_process_zero():
            return self.trainer.model
        model = start(self.recipe, self.folder)
        model.load_state_dict(weights)
        return model

    def _train(self) -> None:
        if self.checkpoint is not None:
            self.watch.say(f"going on from {self.checkpoint}")
        try:
            with hushed():
                self.trainer.train(resume_from_checkpoint=None if self.checkpoint is None else str(self.checkpoint))
        except TrainingError as error:
            stopped = self.trainer.state.global_step + 1
            good = self.place.last(before=self.trainer.state.global_step)
            on = ", which can be the adapter of a new run" if self.recipe.lora_rank and good else ""
            raise TrainingError(f"{error}; stopped at step {stopped}, {self._kept()}{on}") from error
        except (UsageError, StoreError):
            raise
        except (Exception, CheckpointException) as error:  # the latter is of checkpoints in parts, and no Exception
            if self.checkpoint is not None and self._unread(error) and not out_of_memory(error):
                raise self.place.damaged(self.checkpoint, reason(error)) from error
            if not any(word in str(error) for word in _TORCH_CANNOT_WRITE):
                raise
            last = self.place.last()
            kept = f"and resume; {last.name} is whole" if last else "and begin anew: there is none before it"
            raise StoreError(
                f"a checkpoint could not be written to {self.place.path}: free some space on the disk, {kept}"
            ) from error

    def _unread(self, error: BaseException) -> bool:
        """Whether it is the checkpoint's fault; Trainer reads its own state, which is JSON, before anything else."""
        told = isinstance(error, ValueError | KeyError | TypeError) and self.trainer.state.global_step == 0
        return self.trainer.reading or told

    def _about(self) -> dict[str, Any]:
        data = {"rows": len(self.data), "samples": self.data.samples, "empty": self.data.empty}
        counts = {"over_long": self.data.over_long, "labelled_tokens": self.data.labelled}
        held = {"held_out_rows": len(self.held_out)}
        log = [entry for entry in self.trainer.state.log_history if "loss" in entry]
        return {"recipe": self.recipe.to_json(), "data": {**data, **counts, **held}, "log": log}


def _rows(recipe: Recipe, tokenizer: HFTokenizer, offline: bool) -> tuple[Rows, Rows]:
    rows = read_rows(recipe.data, tokenizer, recipe.length, recipe.seed, offline=offline)
    if not recipe.eval_data:
        return split(rows, _HELD_OUT, recipe.eval_rows)
    held = read_rows(recipe.eval_data, tokenizer, recipe.length, recipe.seed, offline=offline)
    return rows, held.first(recipe.eval_rows)


def _guessing(recipe: Recipe, tokens: int) -> float:
    """The loss of a model that knows nothing, as one with random weights may."""
    return math.inf if recipe.scratch else math.log(tokens)


def _teaching(recipe: Recipe, model: Any, bfloat16: bool) -> Teaching | None:
    if not recipe.distil:
        return None
    if recipe.lora_rank:
        return WithoutAdapters(model, recipe.distil)
    return Start(copy.deepcopy(model).requires_grad_(False).eval(), recipe.distil, bfloat16=bfloat16)


def _rhythm(recipe: Recipe) -> Rhythm:
    return Rhythm(recipe.agreement, recipe.last_every)


def _facts(recipe: Recipe, folder: Path, rows: Sequence[Rows], args: TrainingArguments) -> dict[str, Any]:
    """What a recipe names alone, by what it is."""
    settings = settings_digest(folder)
    model = settings if recipe.scratch else fingerprint(read_checkpoint(folder))
    data, held_out = (each.digest() for each in rows)
    facts = {"model": model, "model settings": settings, "data": data, "eval_data": held_out}
    return {**facts, "processes": args.world_size}


def _opened(
    place: RunFolder, recipe: Recipe, facts: dict[str, Any], resume: bool, args: TrainingArguments
) -> Path | None:
    """By the first process, before the others look. Raises UsageError, on all, where they do not see the same."""
    with args.main_process_first(local=False):
        found = place.open(recipe, facts, resume) if args.process_index == 0 else place.last()
    if not alike(found and found.name):
        raise UsageError(
            f"not every process sees the same checkpoints in {place.path}: the output must lie on a disk that all "
            "machines share"
        )
    return found
