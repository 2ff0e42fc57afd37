"""What a run says or refuses where model, tokenizer, settings or machines do not belong together."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from folders import change
from torch.distributed.checkpoint import CheckpointException
from transformers import TrainerCallback

from skipstone.errors import StoreError, UsageError
from skipstone.train.recipe import Recipe
from skipstone.train.run import train
from skipstone.train.sharded import alike
from skipstone.train.watch import Watch


class _Stop(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 3:
            raise KeyboardInterrupt


def test_a_run_from_scratch_goes_on_with_the_settings_it_began_with_or_not_at_all(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(folder, tmp_path / "model")
    with pytest.raises(KeyboardInterrupt):
        train(recipe(scratch=True), model, watch=Watch(callbacks=[_Stop()]))
    change(model / "config.json", rms_norm_eps=0.1)
    with pytest.raises(UsageError, match="model: not what the run"):
        train(recipe(scratch=True), model, resume=True)
    shutil.copyfile(folder / "config.json", model / "config.json")
    change(model / "config.json", transformers_version="0.0.1")
    assert train(recipe(scratch=True), model, resume=True).before


def _said(recipe: Recipe, folder: Path) -> str:
    said: list[str] = []
    train(recipe, folder, watch=Watch(said.append))
    return "\n".join(said)


def test_a_tokenizer_with_other_special_tokens_than_the_model_is_told(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(folder, tmp_path / "model")
    change(model / "config.json", bos_token_id=0, eos_token_id=[7, 1])
    assert "token_id is" not in _said(recipe(steps=1), model)
    change(model / "config.json", bos_token_id=0, eos_token_id=7)
    said = _said(recipe(steps=1, output=str(tmp_path / "other")), model)
    assert "eos_token_id is 1 in the tokenizer and 7 in config.json: if the tokenizer" in said
    assert "bos_token_id" not in said


def test_an_adapter_of_another_model_is_told(recipe: Callable[..., Recipe], folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    lora = {"lora_rank": 2, "steps": 1, "model": str(folder)}
    first, adapter = train(recipe(**lora), folder), tmp_path / "adapter"
    first.save(adapter)
    assert "was made for" not in _said(recipe(**lora, adapter=str(adapter), output=str(tmp_path / "same")), folder)
    change(adapter / "adapter_config.json", base_model_name_or_path="somebody/else")
    said = _said(recipe(**lora, adapter=str(adapter), output=str(tmp_path / "other")), folder)
    assert "was made for somebody/else, and is trained further on" in said


@pytest.mark.parametrize("scratch", [False, True])
def test_a_start_that_knows_nothing_of_the_data_is_told_unless_it_is_random(
    recipe: Callable[..., Recipe], folder: Path, monkeypatch: pytest.MonkeyPatch, scratch: bool
) -> None:
    monkeypatch.setattr(
        "skipstone.train.run.math", SimpleNamespace(log=lambda _: 0.5, inf=math.inf, isfinite=math.isfinite)
    )
    told = "no better than guessing (0.50): see whether its weights, its tokenizer" in _said(
        recipe(steps=2, scratch=scratch), folder
    )
    assert told != scratch


def test_a_checkpoint_in_parts_that_cannot_be_written_is_trouble_with_the_disk(
    recipe: Callable[..., Recipe], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's error is no Exception."""

    def full(*_: Any) -> None:
        raise CheckpointException("save", {0: (OSError(28, "No space left on device"), None)})  # type: ignore[dict-item]

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(StoreError, match=r"could not be written to .*out.run: free some space"):
        train(recipe(steps=2), folder)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_teacher_computes_in_the_type_that_the_student_does(
    recipe: Callable[..., Recipe], folder: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    import copy

    seen = set()

    def watched(model: Any) -> Any:
        twin = copy.deepcopy(model)
        twin.model.layers[0].mlp.up_proj.register_forward_hook(lambda _, __, output: seen.add(output.dtype))
        return twin

    monkeypatch.setattr("skipstone.train.run.copy", SimpleNamespace(deepcopy=watched))
    train(recipe(steps=1, distil=0.5, precision=precision), folder)
    assert seen == {getattr(torch, precision)}


def test_processes_that_see_other_checkpoints_do_not_go_on(
    recipe: Callable[..., Recipe], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(recipe(), folder, watch=Watch(callbacks=[_Stop()]))
    _two_processes(monkeypatch, None)
    with pytest.raises(UsageError, match=r"same checkpoints in .*out.run: the output must lie on a disk"):
        train(recipe(), folder, resume=True)


def _two_processes(monkeypatch: pytest.MonkeyPatch, other: object) -> None:
    """As the processes' own comparison sees it."""

    def gathered(said: list[object], mine: object) -> None:
        said[:] = [mine, other]

    distributed = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_world_size=lambda: 2,
        all_gather_object=gathered,
    )
    monkeypatch.setattr("skipstone.train.run.alike", _alike_over(distributed))


def _alike_over(distributed: object) -> Callable[[object], bool]:
    def compared(value: object) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "distributed", distributed)
            return alike(value)

    return compared
