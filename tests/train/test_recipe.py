"""The parts put together, as a training loop would."""

from typing import Any

import pytest
import torch
from torch import Tensor

from skipstone.testing.tiny import tiny_model
from skipstone.train import EarlyExitLoss, ExitWeights, LayerDropout, Rotational, Teacher, exits
from skipstone.train.recipe import Recipe

L, STEPS = 4, 30
TOKENS = torch.randint(64, (4, 16), generator=torch.Generator().manual_seed(0))


def _losses(model: Any) -> list[float]:
    """Of each exit, on all the text."""
    with torch.no_grad(), exits(model, range(L)) as hidden:
        model(TOKENS, logits_to_keep=1)
    return list(EarlyExitLoss.of(model)(hidden, TOKENS, dict.fromkeys(range(L), 1.0)).by_layer.values())


def _train(model: Any, first: int, last: int, teacher: Teacher | None = None) -> None:
    """Plain gradient descent: what is resumed is the model alone."""
    dropout, curriculum, weights = LayerDropout(L, 0.3, seed=0), Rotational(L, 3), ExitWeights(L, 1.0)
    loss = EarlyExitLoss.of(model, chunk=20)
    for step in range(first, last):
        with exits(model, curriculum.on(step), dropout.at(step, micro_batch=0)) as hidden:
            model(TOKENS, logits_to_keep=1)
        model.zero_grad()
        loss(hidden, TOKENS, weights.normalised(hidden), teacher).total.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.05 * parameter.grad


def _model() -> Any:
    return tiny_model(layers=L).train()


def test_training_lowers_the_loss_of_every_exit_but_the_first_which_has_no_weight():
    model = _model()
    before = _losses(model)
    _train(model, 0, STEPS)
    after = _losses(model)
    assert all(later < earlier for later, earlier in zip(after[1:], before[1:], strict=True))


def test_a_run_that_stops_and_goes_on_ends_where_one_that_never_stopped_does():
    whole, resumed = _model(), _model()
    _train(whole, 0, 8)
    _train(resumed, 0, 3)
    _train(resumed, 3, 8)
    states: list[dict[str, Tensor]] = [whole.state_dict(), resumed.state_dict()]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_with_the_starting_model_as_teacher_exits_come_nearer_to_it():
    start, model = _model(), _model()
    with torch.no_grad(), exits(start, [L - 1]) as hidden:
        start(TOKENS, logits_to_keep=1)
    teacher = Teacher(hidden[L - 1], EarlyExitLoss.of(start).head)

    def distances() -> dict[int, float]:
        with torch.no_grad(), exits(model, [1, 2]) as mine:
            model(TOKENS, logits_to_keep=1)
        return EarlyExitLoss.of(model)(mine, TOKENS, {1: 1.0, 2: 1.0}, teacher).by_layer

    before = distances()
    _train(model, 0, STEPS, teacher)
    assert all(distances()[exit_layer] < before[exit_layer] for exit_layer in before)


@pytest.mark.parametrize(
    ("given", "trained"),
    [
        ({"exits": [3, 2]}, (2, 3)),
        ({"steps": 100}, (2, 3, 4, 5)),
        ({"steps": 100, "e_scale": 0.0}, ()),
        ({"steps": 100, "e_scale": 0.0, "exit_share": 0.5}, (2, 3, 4, 5)),
        ({"steps": 3, "period": 6}, (2, 3)),
        ({"curriculum": "gradual", "steps": 1}, ()),
        ({"curriculum": "gradual", "steps": 6}, (2, 3, 4, 5)),
        ({"curriculum": "gradual", "steps": 2, "period": 1}, (2, 3, 4, 5)),
    ],
)
def test_exits_are_recorded_as_trained_where_they_had_a_loss(given: Any, trained: tuple[int, ...]) -> None:
    recipe = Recipe.of({"model": "m", "data": ["d"], "output": "o", **given})
    assert recipe.plan(6).trained == trained
