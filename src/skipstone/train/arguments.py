"""A recipe in the words of transformers' Trainer, and how weights may be spread over processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments
from transformers.training_args import ParallelMode

from ..errors import UsageError
from ..hf.placing import pick_device
from ..hf.quiet import quiet
from .recipe import Recipe


def arguments(recipe: Recipe, folder: Path) -> TrainingArguments:
    """Of a run that keeps its checkpoints in ``folder``. Raises UsageError for what no process could train with."""
    device = pick_device(recipe.device)
    if device.index:
        raise UsageError(f"training on {device}: give cuda, and choose a GPU with CUDA_VISIBLE_DEVICES")
    with quiet():
        args = TrainingArguments(
            output_dir=str(folder),
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
            **_spread(recipe),
        )
    if recipe.fsdp and args.parallel_mode != ParallelMode.DISTRIBUTED:
        raise UsageError(
            "fsdp spreads the weights over several processes, and there is one: start them by torchrun "
            "--nproc-per-node N --no-python skipstone train …"
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


def _spread(recipe: Recipe) -> dict[str, Any]:
    """FSDP2, a unit for each decoder layer, checkpoints in parts. ``accelerate launch`` brings settings of its own."""
    os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] = "false"  # teachers and new adapters are made of each process's model
    if not recipe.fsdp:
        return {}
    version, state = "2", "SHARDED_STATE_DICT"
    os.environ.update(FSDP_VERSION=version, FSDP_STATE_DICT_TYPE=state)  # transformers 4 hands neither on
    return {"fsdp": "full_shard auto_wrap", "fsdp_config": {"version": int(version), "state_dict_type": state}}


def check_spread(trainer: Any, wanted: bool) -> None:
    """Raises UsageError for the ways to spread weights that training does not know, and where accelerate did not."""
    if trainer.is_deepspeed_enabled:
        raise UsageError(
            "DeepSpeed is not served: its engine owns weights and gradients, which the early-exit loss must reach; "
            "use --fsdp, which spreads them over devices just so"
        )
    if trainer.is_fsdp_enabled and not getattr(trainer.accelerator, "is_fsdp2", False):
        raise UsageError("FSDP 1 is not served: set fsdp_version to 2 in accelerate's settings, or use --fsdp instead")
    if wanted and not trainer.is_fsdp_enabled:
        raise UsageError("accelerate spreads weights over GPUs only, not over CPUs: leave fsdp out, or use a GPU")
