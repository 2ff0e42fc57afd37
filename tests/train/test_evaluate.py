"""Evaluating exits: what is computed, and how long it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from skipstone.cli.training_bar import TrainingBar
from skipstone.train.evaluate import _judged
from skipstone.train.recipe import Recipe
from skipstone.train.run import train
from skipstone.train.watch import Watch


def test_each_exit_has_its_logits_once() -> None:
    calls: list[int] = []
    weight = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))

    def head(hidden: Tensor) -> Tensor:
        calls.append(len(hidden))
        return hidden @ weight.T

    streams = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1))
    sums, choices = _judged(head, streams, torch.arange(5))  # type: ignore[arg-type]
    assert calls == [5, 5, 5]
    logits = streams @ weight.T
    assert choices == logits[-1].argmax(-1).tolist()
    losses = [torch.nn.functional.cross_entropy(each, torch.arange(5), reduction="sum") for each in logits]
    torch.testing.assert_close(sums[:, 0], torch.stack(losses).double())
    assert sums[:, 1].tolist() == [(each.argmax(-1) == logits[-1].argmax(-1)).sum() for each in logits]


def test_the_evaluation_at_the_end_is_foreseen_also_by_a_run_that_goes_on(
    recipe: Callable[..., Recipe], folder: Path
) -> None:
    told: list[float] = []
    watch = Watch(timed=told.append)
    train(recipe(steps=1), folder, watch=watch)
    train(recipe(steps=1), folder, resume=True, watch=watch)
    assert told[0] > 0
    assert told[1] == told[0]


def test_the_estimate_holds_the_steps_to_come_and_the_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 12.0, 14.0])
    monkeypatch.setattr("skipstone.cli.training_bar.time.monotonic", lambda: next(clock))
    bar = TrainingBar(5)
    bar.evaluation(30.0)
    for _ in range(3):
        bar.on_step_end(None, None, None)
    assert bar.left(3) == 2 * 2.0 + 30.0
