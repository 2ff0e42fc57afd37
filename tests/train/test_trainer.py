"""The objective in transformers' Trainer: divisors, draws, what is refused."""

import gc
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from transformers import TrainingArguments

from skipstone.errors import PlanError, TrainingError, UsageError
from skipstone.testing.tiny import tiny_model
from skipstone.train import ExitWeights, Fixed, LayerDropout, Rotational
from skipstone.train.data import Rows
from skipstone.train.evaluate import Figures, evaluate
from skipstone.train.objective import Objective
from skipstone.train.plot import agreement_svg
from skipstone.train.teaching import Start
from skipstone.train.trainer import LayerSkipTrainer

L, N = 4, 12


def _rows(count: int, ragged: bool = True) -> Rows:
    tokens = torch.randint(64, (count, N), generator=torch.Generator().manual_seed(0))
    labels = tokens.clone()
    labels[:, 0] = -100
    for row in range(count):
        labels[row, 1 : 1 + (row % 3) * 3 * ragged] = -100
    parts = [{"input_ids": tokens[i], "labels": labels[i], "position_ids": torch.arange(N)} for i in range(count)]
    return Rows(tuple(parts), count, 0, 0, int((labels != -100).sum()))


def _objective(p_max: float = 0.0, **parts: Any) -> Objective:
    return Objective(Rotational(L, 3), LayerDropout(L, p_max, seed=0), ExitWeights(L, 1.0), **parts)


def _trained(folder: Path, objective: Objective, rows: Rows, **args: Any) -> Any:
    model = tiny_model(layers=L, dtype=torch.float32).train()
    settings = TrainingArguments(
        output_dir=str(folder),
        **{"learning_rate": 0.01, "max_steps": 4, **args},
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        lr_scheduler_type="constant",
        remove_unused_columns=False,
        dataloader_pin_memory=False,
    )
    LayerSkipTrainer(model, settings, objective, rows).train()
    gc.collect()
    return model


def _distance(one: Any, other: Any) -> float:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


def test_accumulation_changes_nothing_even_where_micro_batches_have_unlike_numbers_of_labels(tmp_path: Path) -> None:
    rows = _rows(8)
    big = _trained(tmp_path, _objective(), rows, per_device_train_batch_size=4, optim="sgd")
    small = _trained(
        tmp_path, _objective(), rows, per_device_train_batch_size=1, gradient_accumulation_steps=4, optim="sgd"
    )
    start = tiny_model(layers=L, dtype=torch.float32)
    assert _distance(big, small) < 1e-5 < _distance(big, start)


def test_micro_batches_of_a_step_draw_anew(tmp_path: Path) -> None:
    seen = []

    class Watched(LayerDropout):
        def at(self, step: int, micro_batch: int, rank: int = 0) -> Any:
            seen.append((step, micro_batch, rank))
            return super().at(step, micro_batch, rank)

    objective = Objective(Rotational(L, 3), Watched(L, 0.5, seed=0), ExitWeights(L, 1.0))
    _trained(tmp_path, objective, _rows(8), per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=2)
    assert seen == [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)]


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="lower learning rate"):
        _trained(tmp_path, _objective(), _rows(4), learning_rate=1e30, max_steps=20, max_grad_norm=0)


def test_gradients_that_are_not_finite_stop_the_run_before_they_reach_the_weights(tmp_path: Path) -> None:
    class Spoilt(Objective):
        def __call__(self, *given: Any) -> Any:
            losses = super().__call__(*given)
            losses.total.register_hook(lambda gradient: gradient * float("nan"))
            return losses

    objective = Spoilt(Rotational(L, 3), LayerDropout(L, 0.0, seed=0), ExitWeights(L, 1.0))
    with pytest.raises(TrainingError, match="gradients at step 1 are not finite"):
        _trained(tmp_path, objective, _rows(4))


def test_a_few_steps_lower_the_losses_of_the_exits_and_raise_their_agreement(tmp_path: Path) -> None:
    rows = _rows(8)
    model = _trained(tmp_path, _objective(0.2), rows, per_device_train_batch_size=4, max_steps=12)
    before, after = evaluate(tiny_model(layers=L, dtype=torch.float32), rows), evaluate(model, rows, batch=3)
    assert all(b.loss < a.loss for a, b in zip(before.exits[1:], after.exits[1:], strict=True))
    assert after.exits[2].agreement > before.exits[2].agreement
    assert after.exits[-1].agreement == 1


def test_a_teacher_keeps_the_last_layer_where_it_was(tmp_path: Path) -> None:
    rows, start = _rows(8), tiny_model(layers=L, dtype=torch.float32)
    fixed = {"curriculum": Fixed(L, frozenset({3})), "dropout": LayerDropout(L, 0.0, 0), "weights": ExitWeights(L, 1.0)}
    before = evaluate(start, rows)
    taught = evaluate(_trained(tmp_path, Objective(**fixed, teaching=Start(start, 1.0)), rows, max_steps=8), rows)
    alone = evaluate(_trained(tmp_path, Objective(**fixed), rows, max_steps=8), rows)
    assert taught.same_choices(before) > alone.same_choices(before)


def test_figures_survive_the_disk() -> None:
    figures = evaluate(tiny_model(layers=2, dtype=torch.float32), _rows(3))
    assert Figures.from_json(figures.to_json(choices=True)) == figures
    assert [e.exit for e in figures.exits] == [1, 2]
    assert figures.tokens == sum(int((row["labels"] != -100).sum()) for row in _rows(3).rows)


def test_a_few_exits_have_the_figures_they_have_among_all() -> None:
    model, rows = tiny_model(layers=L, dtype=torch.float32), _rows(3)
    every, few = evaluate(model, rows), evaluate(model, rows, only=[3, 1])
    assert [each.exit for each in few.exits] == [1, 3, L]
    assert few.exits == (every.at(1), every.at(3), every.at(L))
    assert few.choices == every.choices
    with pytest.raises(UsageError, match=r"exit 2 was not evaluated: there are \[1, 3"):
        few.at(2)
    with pytest.raises(PlanError):
        evaluate(model, rows, only=[L + 1])


def test_a_plot_of_a_few_exits_puts_each_at_its_place() -> None:
    model, rows = tiny_model(layers=L, dtype=torch.float32), _rows(3)
    every, few = evaluate(model, rows), evaluate(model, rows, only=[2])
    pictures = [ElementTree.fromstring(agreement_svg(each, each, [], ("one", "other"))) for each in (every, few)]
    points = [next(e.attrib["points"].split() for e in p if e.tag.endswith("polyline")) for p in pictures]
    assert points[1] == [points[0][1], points[0][-1]]


def test_the_plot_has_a_point_for_each_exit_and_a_dot_for_each_trained_one() -> None:
    figures = evaluate(tiny_model(layers=L, dtype=torch.float32), _rows(3))
    picture = ElementTree.fromstring(agreement_svg(figures, figures, [2, 3]))
    lines = [each.attrib["points"].split() for each in picture if each.tag.endswith("polyline")]
    assert [len(points) for points in lines] == [L, L]
    assert sum(each.tag.endswith("circle") for each in picture) == 2
