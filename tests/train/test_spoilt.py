"""A run that destroys its model ends with an error, whenever that shows, and calls no spoilt state a good one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from transformers import TrainerCallback

from skipstone.errors import TrainingError, UsageError
from skipstone.train.recipe import Recipe
from skipstone.train.run import train
from skipstone.train.watch import Watch


class _Spoil(TrainerCallback):
    """A final norm so large that what it makes is not finite, though it is."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self._step:
            kwargs["model"].model.norm.weight.data.fill_(3e38)


def test_a_last_step_that_destroys_the_model_is_no_success(recipe: Callable[..., Recipe], folder: Path) -> None:
    said = (
        r"after training the loss of exit \d is .*lower the learning rate.*checkpoint-4 may be spoilt, .*checkpoint-2"
    )
    with pytest.raises(TrainingError, match=said):
        train(recipe(), folder, watch=Watch(callbacks=[_Spoil(4)]))


def test_a_state_whose_own_loss_is_not_finite_is_not_called_good(recipe: Callable[..., Recipe], folder: Path) -> None:
    with pytest.raises(TrainingError, match=r"stopped at step 3, .*checkpoint-2 may be spoilt, there is none before"):
        train(recipe(), folder, watch=Watch(callbacks=[_Spoil(2)]))


def test_a_model_that_is_spoilt_from_the_start_is_not_trained(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    spoilt = Path(shutil.copytree(folder, tmp_path / "spoilt"))
    weights = load_file(spoilt / "model.safetensors")
    weights["model.norm.weight"][0] = float("nan")
    save_file(weights, spoilt / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UsageError, match="begins with a loss of nan: it has weights that are not finite"):
        train(recipe(), spoilt)


def test_weights_too_large_for_what_they_are_stored_in_are_not_written(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    trained = train(recipe(stored="float16"), folder)
    trained.model.model.norm.weight.data[0] = 1e5
    (result := tmp_path / "result").mkdir()
    with pytest.raises(TrainingError, match=r"norm\.weight has weights that are infinite as .*stored float32"):
        trained.save(result)
    assert not list(result.iterdir())


def test_a_run_that_ended_may_be_written_in_another_type(recipe: Callable[..., Recipe], folder: Path) -> None:
    train(recipe(stored="float16"), folder)
    assert train(recipe(stored="float32"), folder, resume=True).report()["recipe"]["stored"] == "float32"
