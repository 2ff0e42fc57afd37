"""The draws behind sampling."""

import math

import pytest
import torch
from chi_square import p_value

from skipstone import noise
from skipstone.noise import Stream

CPU = torch.device("cpu")
N = 1 << 18
EULER = 0.5772156649


def _draws(seed: int, position: int, size: int = N, stream: Stream = Stream.TOKEN) -> torch.Tensor:
    return noise.gumbel(seed, position, size, stream=stream, device=CPU).double()


def test_the_same_seed_and_position_give_the_same_draws_whatever_the_size():
    assert torch.equal(_draws(7, 3, 1000)[:10], _draws(7, 3, 10))


@pytest.mark.parametrize(("seed", "position"), [(0, 0), (0, 1), (2**63, 100_000), (-5, 17)])
def test_gumbel_noise_has_the_mean_the_variance_and_the_quantiles_of_gumbel_noise(seed: int, position: int):
    draws = _draws(seed, position)
    assert float(draws.mean()) == pytest.approx(EULER, abs=0.015)
    assert float(draws.var()) == pytest.approx(math.pi**2 / 6, rel=0.02)
    edges = -torch.log(-torch.log(torch.linspace(0, 1, 101, dtype=torch.float64)))[1:-1]
    cells = torch.bucketize(draws, edges).bincount(minlength=100)
    assert p_value(cells, torch.full((100,), 0.01)) > 1e-4


def test_the_upper_tail_is_that_of_gumbel_noise():
    draws = torch.cat([_draws(1, position) for position in range(16)])
    for x in (6.0, 9.0, 12.0):
        tail = -math.expm1(-math.exp(-x)) * len(draws)
        assert float((draws > x).sum()) == pytest.approx(tail, abs=5 * math.sqrt(tail))


@pytest.mark.parametrize("bits", [0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1])
def test_every_hash_gives_a_finite_number_and_small_hashes_the_large_ones(bits: int, monkeypatch: pytest.MonkeyPatch):
    signed = bits - (1 << 32) if bits >= 1 << 31 else bits
    monkeypatch.setattr(noise, "hashed", lambda tokens, key: torch.full_like(tokens, signed))
    u = (bits + 0.5) / 2**32
    want = -math.log(-math.log1p(-min(u, 1 - 2**-24)))
    assert float(_draws(0, 0, 1)) == pytest.approx(want, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_draws(3, 5), _draws(3, 6)),
        (_draws(3, 5), _draws(4, 5)),
        (_draws(3, 5), _draws(5, 3)),
        (_draws(3, 5), _draws(3, 5, stream=Stream.DRAFT)),
        (_draws(3, 5)[:-1], _draws(3, 5)[1:]),
        (_draws(3, 5)[: N // 2], _draws(3, 5)[N // 2 :]),
    ],
    ids=["positions", "seeds", "swapped", "streams", "tokens", "halves"],
)
def test_draws_of_neighbours_are_independent(one: torch.Tensor, other: torch.Tensor):
    for x, y in ((one, other), ((-one).exp(), (-other).exp())):
        correlation = float(torch.corrcoef(torch.stack([x, y]))[0, 1])
        assert abs(correlation) < 4.5 / math.sqrt(len(x))
    cells = (torch.stack([one, other]) * -1).exp().neg().exp().mul(8).long().clamp(max=7)  # eighths of the distribution
    joint = (cells[0] * 8 + cells[1]).bincount(minlength=64)
    assert p_value(joint, torch.full((64,), 1 / 64)) > 1e-4


def test_one_token_samples_evenly_over_positions():
    """The noise of a token over positions, as opposed to that of a position over tokens."""
    winners = torch.tensor([int(_draws(11, position, 16).argmax()) for position in range(6000)])
    assert p_value(winners.bincount(minlength=16), torch.full((16,), 1 / 16)) > 1e-4


def test_coins_are_even_and_never_zero_or_one():
    coins = torch.tensor([noise.uniform(seed, position, Stream.ACCEPT) for seed in range(60) for position in range(60)])
    assert 0 < float(coins.min()) <= float(coins.max()) < 1
    assert p_value(coins.mul(20).long().bincount(minlength=20), torch.full((20,), 0.05)) > 1e-4
