"""Noise is drawn for few tokens only, and nobody can tell."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skipstone import noise
from skipstone.noise import HIGHEST, Stream
from skipstone.sampling import RowSampler, SamplingParams
from skipstone.winners import largest, winners

CPU = torch.device("cpu")
SIZES = (1, 97, 1000, 4097, 8192, 49152, 50257)

shapes = st.tuples(st.sampled_from(SIZES), st.integers(0, 1000), st.sampled_from([0.0, 1e-3, 0.3, 3.0, 30.0, 1e9]))
params = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.3, 0.8, 1.0, 5.0]),
    top_k=st.sampled_from([0, 0, 1, 40]),
    top_p=st.sampled_from([1.0, 1.0, 0.95, 0.6]),
    min_p=st.sampled_from([0.0, 0.0, 0.05]),
    seed=st.integers(0, 2**63),
)


def _scores(shape: tuple[int, int, float], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    size, seed, spread = shape
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=dtype) * spread


def _whole(scores: torch.Tensor, key: int) -> torch.Tensor:
    """What decides, in full: scores plus the noise of every token."""
    every = torch.arange(len(scores), dtype=torch.int32)
    return scores + noise.gumbel_of(noise.hashed(every, key))


@given(st.integers(0, 2**64 - 1), st.sampled_from(SIZES), st.integers(0, 1000), st.integers(1, 300))
def test_the_noise_of_some_tokens_is_bit_for_bit_theirs_among_all(key: int, size: int, seed: int, some: int):
    among_all = _whole(torch.zeros(size), key)
    tokens = torch.randperm(size, generator=torch.Generator().manual_seed(seed))[:some].int()
    assert torch.equal(noise.gumbel_of(noise.hashed(tokens.clone(), key)), among_all[tokens])


@given(shapes, params, st.integers(0, 5), st.sampled_from([torch.float32, torch.float64]))
def test_the_token_drawn_is_the_best_by_the_noise_of_all(shape, drawn: SamplingParams, depth: int, dtype: torch.dtype):
    logits = _scores(shape, dtype)
    sampler = RowSampler(drawn, len(logits), CPU)
    scores = sampler.scores(logits[None], [[]])
    value, token = sampler.best(scores[0], depth)
    want, choice = sampler.perturbed(scores, [depth]).max(-1)
    assert (float(value), int(token)) == (float(want), int(choice))


@given(shapes, st.integers(0, 2**64 - 1), st.integers(1, 80), st.floats(0, 1))
def test_several_winners_are_the_best_by_the_noise_of_all(shape, key: int, count: int, allowed: float):
    scores = _scores(shape)
    scores[torch.rand(len(scores), generator=torch.Generator().manual_seed(1)) > allowed] = -math.inf
    whole = _whole(scores, key)
    count = min(count, len(scores))
    values, tokens = winners(scores, count, key)
    assert torch.equal(values, whole.topk(count).values)  # equal ones may stand in another order
    assert torch.equal(whole[tokens], values)
    assert len(set(tokens.tolist())) == count


@given(shapes, st.integers(1, 300), st.floats(0, 1))
def test_the_largest_are_those_of_a_look_at_all(shape, count: int, allowed: float):
    scores = _scores(shape)
    scores[torch.rand(len(scores), generator=torch.Generator().manual_seed(1)) > allowed] = -math.inf
    count = min(count, len(scores))
    assert torch.equal(largest(scores, count), scores.topk(count).values)


@pytest.mark.parametrize("odd", [-math.inf, math.nan, math.inf])
@pytest.mark.parametrize("count", [1, 3])
def test_scores_without_a_choice_are_told_by_the_value(odd: float, count: int):
    scores = torch.full((5000,), -math.inf)
    scores[70] = odd
    values, tokens = winners(scores, count, 5)
    assert str(float(values[0])) == str(odd)
    assert all(0 <= t < 5000 for t in tokens.tolist())


def test_of_equal_sums_the_first_wins():
    scores = torch.full((6400,), 1e9)  # noise is lost in the rounding
    assert int(winners(scores, 1, 3)[1]) == int(_whole(scores, 3).argmax())


@pytest.mark.parametrize("bits", [0, 1, 2**31 - 1, -(2**31), -1])
def test_no_noise_is_above_the_highest(bits: int):
    assert float(noise.gumbel_of(torch.tensor([bits], dtype=torch.int32))) < HIGHEST


@given(st.integers(0, 2**64 - 1))
def test_the_rarest_hash_of_a_row_has_its_largest_noise(key: int):
    bits = noise.hashed(torch.arange(640, dtype=torch.int32), key).view(10, 64)
    assert torch.equal(noise.gumbel_of(noise.rarest(bits)), noise.gumbel_of(bits).amax(-1))


def test_few_tokens_are_drawn_where_scores_are_peaked_or_flat(monkeypatch: pytest.MonkeyPatch):
    drawn: list[int] = []
    whole = noise.gumbel_of
    monkeypatch.setattr(noise, "gumbel_of", lambda bits: drawn.append(bits.numel()) or whole(bits))
    for temperature, top_p in ((0.8, 0.95), (1.0, 1.0), (50.0, 1.0)):
        drawn.clear()
        sampler = RowSampler(SamplingParams(temperature, top_p=top_p), 49152, CPU)
        sampler.best(sampler.scores(_scores((49152, 0, 3.0))[None], [[]])[0], 0, stream=Stream.TOKEN)
        assert sum(drawn) < 49152 / 4
