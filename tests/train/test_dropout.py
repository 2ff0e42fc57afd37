"""Which samples leave layers out, and how often."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skipstone.errors import UsageError
from skipstone.train import LayerDropout

numbers = st.integers(0, 1000)


def test_with_four_layers_probabilities_are_those_worked_out_by_hand():
    dropout = LayerDropout(4, 0.2, seed=0)
    by_hand = [0.0, 0.2 * 0.2599210498948732, 0.2 * 0.5874010519681994, 0.2]  # 2^(l/3) - 1
    assert [dropout.probability(layer, 17) for layer in range(4)] == pytest.approx(by_hand, abs=1e-15)


def test_from_scratch_dropout_starts_at_nothing_and_ends_at_what_it_is_for_continual_training():
    dropout = LayerDropout(4, 0.2, 0, "exponential", total_steps=3)
    last = [dropout.probability(3, step) for step in range(3)]
    assert last == pytest.approx([0.0, 0.2 * (2**0.5 - 1), 0.2], abs=1e-15)
    assert dropout.probability(3, 99) == last[-1]


@given(st.integers(2, 40), st.floats(0, 0.99), numbers)
def test_the_first_layer_is_never_dropped_the_last_with_p_max_and_none_less_than_the_one_before(
    layers: int, p_max: float, step: int
):
    dropout = LayerDropout(layers, p_max, seed=0)
    probabilities = [dropout.probability(layer, step) for layer in range(layers)]
    assert probabilities[0] == 0.0
    assert probabilities[-1] == p_max
    assert probabilities == sorted(probabilities)
    assert dropout.kept(step, 0, 0, 8).all()


@given(st.integers(0, 3), numbers, numbers, st.integers(1, 16), st.integers(0, 7))
def test_draws_follow_from_their_key_alone_and_all_ranks_drop_equally_many(
    layer: int, step: int, micro_batch: int, batch: int, rank: int
):
    dropout = LayerDropout(4, 0.6, seed=5)
    dropped = dropout.dropped(step, layer, micro_batch, batch)
    mine = dropout.kept(step, layer, micro_batch, batch, rank)
    dropout.kept(step + 1, layer, micro_batch, batch, rank)
    assert torch.equal(LayerDropout(4, 0.6, seed=5).kept(step, layer, micro_batch, batch, rank), mine)
    assert torch.equal(dropout.at(step, micro_batch, rank)(layer, batch), mine)
    assert int((~mine).sum()) == int((~dropout.kept(step, layer, micro_batch, batch)).sum()) == dropped
    assert abs(dropped - dropout.probability(layer, step) * batch) < 1


def test_every_sample_is_dropped_as_often_as_the_probability_says():
    dropout = LayerDropout(4, 0.3, seed=1)
    kept = torch.stack([dropout.kept(step, 3, 0, 5) for step in range(4000)])
    assert (~kept).double().mean(0).tolist() == pytest.approx([0.3] * 5, abs=0.03)


def test_other_seeds_steps_layers_micro_batches_and_ranks_drop_other_samples():
    def history(seed: int = 0, micro_batch: int = 0, rank: int = 0, first: int = 0, layer: int = 3) -> list[bool]:
        dropout = LayerDropout(5, 0.5, seed)
        return torch.cat(
            [dropout.kept(step, layer, micro_batch, 4, rank) for step in range(first, first + 20)]
        ).tolist()

    seen = [history(), history(seed=1), history(micro_batch=1), history(rank=1), history(first=1), history(layer=4)]
    assert len({tuple(draws) for draws in seen}) == len(seen)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"p_max": 1.0}, "p_max 1.0"),
        ({"p_max": -0.1}, "p_max -0.1"),
        ({"p_max": float("nan")}, "p_max nan"),
        ({"layers": 1}, "over 1 layers"),
        ({"schedule": "linear"}, '"linear"'),
        ({"schedule": "exponential"}, "total_steps=None"),
        ({"schedule": "exponential", "total_steps": 1}, "total_steps=1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], said: str):
    with pytest.raises(UsageError, match=said):
        LayerDropout(**{"layers": 4, "p_max": 0.1, "seed": 0, **settings})


def test_a_layer_the_model_lacks_is_refused():
    with pytest.raises(UsageError, match=r"layer 4 of a model with layers 0\.\.3"):
        LayerDropout(4, 0.1, 0).probability(4, 0)
