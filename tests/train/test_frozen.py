"""Frozen layers: what is before and in them gets no gradient at any step, also where adapters go off for a teacher."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lora import needs_peft
from transformers import TrainerCallback

from skipstone.hf.quiet import quiet
from skipstone.testing.tiny import tiny_model
from skipstone.train.recipe import Recipe
from skipstone.train.run import train
from skipstone.train.run_folder import RunFolder
from skipstone.train.starting import start
from skipstone.train.watch import Watch

LORA = {"exits": [2], "lora_rank": 2, "agreement": 1, "exit_share": 0.5, "distil": 1.0, "frozen_layers": 2}


class _Stop(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 3:
            raise KeyboardInterrupt


class _Gradients(TrainerCallback):
    """The names of weights that had one at any step."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.names |= {name for name, weight in kwargs["model"].named_parameters() if weight.grad is not None}


@needs_peft
@pytest.mark.parametrize("checkpointing", [False, True])
def test_frozen_adapters_get_no_gradient_though_adapters_go_off_and_on(
    recipe: Callable[..., Recipe], folder: Path, checkpointing: bool
) -> None:
    seen = _Gradients()
    train(recipe(**LORA, checkpointing=checkpointing), folder, watch=Watch(callbacks=[seen]))
    assert {name.split(".layers.")[1][0] for name in seen.names} == {"2", "3"}


@needs_peft
def test_a_run_with_frozen_adapters_goes_on_as_if_it_never_had_been_stopped(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    settings = {**LORA, "checkpointing": True, "p_max": 0.5}
    whole = train(recipe(**settings, output=str(tmp_path / "whole")), folder)
    with pytest.raises(KeyboardInterrupt):
        train(recipe(**settings), folder, watch=Watch(callbacks=[_Stop()]))
    resumed = train(recipe(**settings), folder, resume=True)
    assert resumed.after == whole.after
    assert _norms(tmp_path / "out") == _norms(tmp_path / "whole")
    pairs = zip(whole.model.parameters(), resumed.model.parameters(), strict=True)
    assert all(torch.equal(a.detach(), b.detach()) for a, b in pairs)


def _norms(output: Path) -> list[Any]:
    lines = RunFolder.beside(output).log.read_text().splitlines()
    return [(line["loss"], line["grad_norm"]) for line in map(json.loads, lines)]


@needs_peft
def test_adapters_that_did_not_learn_are_stored_in_the_type_of_the_others(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    (tmp_path / "half").mkdir()
    train(recipe(**LORA, stored="float16", steps=1), folder).save(tmp_path / "half")
    weights = load_file(tmp_path / "half" / "adapter_model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float16}


@pytest.mark.parametrize(
    ("model_type", "config"),
    [
        ("gpt2", {}),
        ("bloom", {}),
        ("opt", {"word_embed_proj_dim": 16}),
        ("llama", {"tie_word_embeddings": True}),
    ],
)
def test_all_that_comes_before_the_layers_that_learn_is_frozen(
    recipe: Callable[..., Recipe], tmp_path: Path, model_type: str, config: dict[str, Any]
) -> None:
    with quiet():
        tiny_model(model_type, layers=3, **config).save_pretrained(tmp_path / "model")
    settings = recipe(model=str(tmp_path / "model"), frozen_layers=2, scratch=True)
    model = start(settings, tmp_path / "model")
    learning = {name for name, weight in model.named_parameters() if weight.requires_grad}
    before = ("embed", "wte", "wpe", "project_in", "layers.0", "layers.1", "h.0", "h.1")
    behind = ("layers.2", "h.2", "ln_f", "final_layer_norm", "norm", "project_out", "lm_head")
    assert not [name for name in learning if any(part in name for part in before)]
    assert all(weight.requires_grad or any(p in name for p in before) for name, weight in model.named_parameters())
    assert {part for part in behind if any(part in name for name, _ in model.named_parameters())} == {
        part for part in behind if any(part in name for name in learning)
    }
