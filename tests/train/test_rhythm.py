"""Exits that learn from the last layer of their own model, which itself learns only now and then."""

from typing import Any

import pytest
import torch
from torch import Tensor

from skipstone.errors import UsageError
from skipstone.testing.tiny import tiny_model
from skipstone.train import EarlyExitLoss, ExitWeights, Fixed, LayerDropout, exits
from skipstone.train.objective import Objective, Place, Rhythm

L, EXIT = 4, 2
TOKENS = torch.randint(64, (4, 16), generator=torch.Generator().manual_seed(0))
BATCH = {"input_ids": TOKENS, "labels": TOKENS, "position_ids": torch.arange(16).expand(4, 16)}


def _objective(rhythm: Rhythm, share: float = 0.5) -> Objective:
    return Objective(
        Fixed(L, frozenset({EXIT})), LayerDropout(L, 0.0, seed=0), ExitWeights(L, 1.0, share), rhythm=rhythm
    )


def _run(rhythm: Rhythm, micro_batch: int) -> tuple[Any, Any]:
    model = tiny_model(layers=L).train()
    losses = _objective(rhythm)(model, model, BATCH, Place(0, micro_batch))
    losses.total.backward()
    return model, losses


def _moved(model: Any, layer: int) -> bool:
    gradients = [weight.grad for weight in model.model.layers[layer].parameters()]
    return any(gradient is not None and bool(gradient.abs().sum() > 0) for gradient in gradients)


def test_between_its_turns_the_last_layer_has_no_loss_and_only_layers_before_the_exit_move():
    model, losses = _run(Rhythm(agreement=1.0, last_every=2), micro_batch=0)
    assert list(losses.by_layer) == [EXIT - 1]
    assert [_moved(model, layer) for layer in range(L)] == [True, True, False, False]


def test_at_its_turn_every_layer_moves():
    model, losses = _run(Rhythm(agreement=1.0, last_every=2), micro_batch=3)
    assert list(losses.by_layer) == [EXIT - 1, L - 1]
    assert all(_moved(model, layer) for layer in range(L))


def test_over_its_turns_the_last_layer_has_the_weight_it_would_have_every_time():
    """With exits that learn from labels alone (a hair of agreement), four micro-batches sum to the plain loss."""
    plain = _run(Rhythm(), 0)[1].total
    rhythm = Rhythm(agreement=1e-12, last_every=4)
    mean = torch.stack([_run(rhythm, number)[1].total for number in range(4)]).mean()
    torch.testing.assert_close(mean, plain, rtol=1e-9, atol=0)


@pytest.mark.parametrize(("of", "every"), [(1, 2), (3, 2), (5, 3), (4, 4)])
def test_a_short_step_at_the_end_of_an_epoch_has_its_last_layer_and_no_less_of_it(of: int, every: int):
    rhythm = Rhythm(agreement=1.0, last_every=every)
    places = [Place(9, number, of=of) for number in range(of)]
    assert rhythm.whole(places[-1])  # where processes compare gradients
    assert sum(rhythm.times(place) for place in places if rhythm.whole(place)) == pytest.approx(of)


def test_the_loss_of_an_exit_is_its_divergence_from_the_last_layer_as_it_is():
    model, losses = _run(Rhythm(agreement=1.0), micro_batch=0)
    with torch.no_grad(), exits(model, range(L)) as hidden:
        model(TOKENS, logits_to_keep=1)
    head = EarlyExitLoss.of(model).head
    says = [head(hidden[layer][:, :-1]).log_softmax(-1) for layer in (L - 1, EXIT - 1)]
    divergence = (says[0].exp() * (says[0] - says[1])).sum(-1).mean()
    assert losses.by_layer[EXIT - 1] == pytest.approx(float(divergence.detach()))


def test_no_gradient_reaches_the_last_layer_through_the_exits():
    """It is to be drafted as it is, not to come down to what exits can say."""
    model = tiny_model(layers=L).train()
    losses = _objective(Rhythm(agreement=1.0), share=0.5)(model, model, BATCH, Place(0, 0))
    alone = tiny_model(layers=L).train()
    with exits(alone, [L - 1]) as hidden:
        alone(TOKENS, logits_to_keep=1)
    EarlyExitLoss.of(alone)(hidden, TOKENS, {L - 1: 0.5}).total.backward()
    losses.total.backward()
    pairs = zip(_weights_behind(model), _weights_behind(alone), strict=True)
    assert all(torch.allclose(a, b) for a, b in pairs)


def _weights_behind(model: Any) -> list[Tensor]:
    return [weight.grad for layer in model.model.layers[EXIT:] for weight in layer.parameters()]


def test_a_share_of_the_exits_is_theirs_whatever_their_depth():
    weights = ExitWeights(30, 0.2, share=0.5).normalised({7, 11, 29})
    assert weights[7] + weights[11] == pytest.approx(0.5)
    assert weights[29] == pytest.approx(0.5)
    assert weights[7] / weights[11] == pytest.approx(28 / 66)
    assert ExitWeights(30, 0.2, share=0.5).normalised({29}) == {29: 1.0}


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_shares_that_leave_nothing_for_the_last_layer_are_refused(share: float):
    with pytest.raises(UsageError, match="of the loss"):
        ExitWeights(4, 0.2, share)
