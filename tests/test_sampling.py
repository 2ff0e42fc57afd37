"""From logits to processed scores."""

import math
from dataclasses import replace

import pytest
import torch
import transformers
from drawing import NoneOfThree, samplings
from hypothesis import given
from hypothesis import strategies as st

from skipstone.errors import RequestError
from skipstone.sampling import RowSampler, SamplingParams, derived_seed

V = 64
CPU = torch.device("cpu")
texts = st.lists(st.integers(0, V - 1), min_size=1, max_size=8)


def _sampler(params: SamplingParams, prompt: list[int], output: list[int], constraint=None) -> RowSampler:
    sampler = RowSampler(params, V, CPU, constraint)
    sampler.start(prompt)
    sampler.advance(output)
    return sampler


def _logits(seed: int, nodes: int = 1) -> torch.Tensor:
    return 3 * torch.randn(nodes, V, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _theirs(logits: torch.Tensor, params: SamplingParams, text: list[int]) -> torch.Tensor:
    """What transformers' own processors make of logits [1, V] after ``text``."""
    processors = transformers.LogitsProcessorList()
    if params.repetition_penalty != 1:
        processors.append(transformers.RepetitionPenaltyLogitsProcessor(params.repetition_penalty))
    if params.temperature != 1:
        processors.append(transformers.TemperatureLogitsWarper(params.temperature))
    if params.top_k:
        processors.append(transformers.TopKLogitsWarper(params.top_k))
    if params.top_p < 1:
        processors.append(transformers.TopPLogitsWarper(params.top_p))
    if params.min_p:
        processors.append(transformers.MinPLogitsWarper(params.min_p))
    return processors(torch.tensor([text]), logits)


@given(
    st.integers(0, 10_000),
    texts,
    texts,
    st.builds(
        SamplingParams,
        temperature=st.floats(0.1, 3),
        top_k=st.sampled_from([0, 1, 2, 10, V - 1, V, V + 10]),
        top_p=st.sampled_from([1.0, 0.999, 0.9, 0.5, 0.01]),
        min_p=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
        repetition_penalty=st.sampled_from([1.0, 0.7, 1.3]),
    ),
)
def test_scores_are_those_of_transformers(seed: int, prompt: list[int], path: list[int], params: SamplingParams):
    logits = _logits(seed)
    ours = _sampler(params, prompt, []).scores(logits, [path])
    torch.testing.assert_close(ours, _theirs(logits, params, prompt + path), atol=1e-12, rtol=1e-12)


@given(st.integers(0, 10_000), texts, texts, samplings)
def test_penalties_count_the_output_and_not_the_prompt(
    seed: int, prompt: list[int], path: list[int], drawn: SamplingParams
):
    params = SamplingParams(
        repetition_penalty=drawn.repetition_penalty,
        presence_penalty=drawn.presence_penalty,
        frequency_penalty=drawn.frequency_penalty,
        logit_bias=drawn.logit_bias,
    )
    logits = _logits(seed)
    want = logits[0].tolist()
    for token in range(V):
        if token in prompt + path:
            rho = params.repetition_penalty
            want[token] = want[token] / rho if want[token] > 0 else want[token] * rho
        count = path.count(token)
        want[token] -= params.frequency_penalty * count + params.presence_penalty * (count > 0)
        want[token] += params.logit_bias.get(token, 0.0)
    got = _sampler(params, prompt, path[:2]).scores(logits, [path[2:]])
    torch.testing.assert_close(got[0], torch.tensor(want, dtype=torch.float64))


@given(st.integers(0, 10_000), texts, texts, samplings, st.booleans())
def test_a_drafted_path_counts_as_if_it_were_final(seed: int, prompt, path, params: SamplingParams, constrained: bool):
    constraint = NoneOfThree() if constrained else None
    drafted = _sampler(params, prompt, [], constraint)
    final = _sampler(params, prompt, path, constraint.fork() if constraint else None)
    logits = _logits(seed, nodes=2)
    ahead = drafted.scores(logits.clone(), [[], path])
    now = final.scores(logits[1:].clone(), [[]])
    assert torch.equal(ahead[1:], now)
    depths = [0, len(path)]
    assert torch.equal(drafted.perturbed(ahead, depths)[1:], final.perturbed(now, [0]))


def test_scoring_leaves_the_logits_as_they_were():
    logits = _logits(1)
    before = logits.clone()
    params = SamplingParams(1.3, top_k=5, logit_bias={3: 2.0}, repetition_penalty=1.5)
    _sampler(params, [1], [], NoneOfThree()).scores(logits, [[3]])
    assert torch.equal(logits, before)


def test_the_whole_nucleus_is_found_where_the_first_look_is_too_short():
    flat = torch.randn(1, 2000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 100
    sampler = RowSampler(SamplingParams(1.0, top_p=0.9), 2000, CPU)
    torch.testing.assert_close(sampler.scores(flat, [[]]), transformers.TopPLogitsWarper(0.9)(None, flat))


@pytest.mark.parametrize("vocab", [49152, 50257])
@pytest.mark.parametrize(
    ("temperature", "least", "most"), [(0.1, 1, 32), (0.6, 33, 256), (0.8, 257, 4096), (6.0, 4097, 49152)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_nucleus_of_any_size_is_that_of_transformers(vocab: int, temperature: float, least: int, most: int, dtype):
    logits = 2.5 * torch.randn(2, vocab, generator=torch.Generator().manual_seed(0)).to(dtype)
    scores = RowSampler(SamplingParams(temperature, top_p=0.9), vocab, CPU).scores(logits, [[], []])
    assert all(least <= kept <= most for kept in scores.isfinite().sum(-1).tolist())
    theirs = transformers.TopPLogitsWarper(0.9)(None, logits.double() / temperature)
    assert (scores.isfinite() != theirs.isfinite()).sum() <= 2 * (dtype == torch.float32)


@pytest.mark.parametrize("odd", [-math.inf, math.inf, math.nan])
@pytest.mark.parametrize("cut", [{"top_k": 3}, {"top_p": 0.9}, {"min_p": 0.1}])
def test_cuts_leave_it_to_the_choice_to_tell_odd_scores(odd: float, cut: dict[str, float]):
    logits = torch.full((1, 49152), -math.inf)
    logits[0, 7] = odd
    scores = RowSampler(SamplingParams(0.8, **cut), 49152, CPU).scores(logits, [[]])
    assert str(float(scores[0, 7])) == str(odd)


@pytest.mark.parametrize("cut", [{"top_k": 20}, {"top_p": 0.9}, {"min_p": 1e-9}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tokens_masked_by_the_lowest_number_are_no_warning(cut: dict[str, float], dtype: torch.dtype):
    logits = torch.full((1, 64), torch.finfo(dtype).min, dtype=dtype)
    logits[0, :10] = torch.arange(10)
    scores = RowSampler(SamplingParams(1.0, **cut), 64, CPU).scores(logits, [[]])
    assert scores[0, 9] == 9


def test_the_best_of_scores_that_are_0_stay_where_denormal_numbers_count_as_0():
    torch.set_flush_denormal(True)
    try:
        scores = RowSampler(SamplingParams(1.0, top_k=1), 4, CPU).scores(torch.tensor([[0.0, 0, -1, -2]]), [[]])
    finally:
        torch.set_flush_denormal(False)
    assert scores.tolist() == [[0.0, 0.0, -math.inf, -math.inf]]


def test_a_nucleus_of_many_words_is_exact():
    logits = 4 * torch.randn(60, 151936, generator=torch.Generator().manual_seed(0))
    kept = RowSampler(SamplingParams(1.0, top_p=0.99), 151936, CPU).scores(logits, [[]] * 60).isfinite().sum(-1)
    shares = logits.double().softmax(-1).sort(descending=True).values.cumsum(-1)
    assert int((kept - 1 - (shares < 0.99).sum(-1)).abs().sum()) <= 6


def test_half_precision_logits_are_scored_in_float32():
    assert _sampler(SamplingParams(), [1], []).scores(_logits(0).half(), [[]]).dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.inf),
        ("temperature", math.nan),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", -0.1),
        ("min_p", 1.5),
        ("repetition_penalty", 0.0),
        ("presence_penalty", math.nan),
        ("frequency_penalty", math.inf),
        ("logit_bias", {-1: 0.0}),
        ("logit_bias", {1: math.nan}),
        ("logit_bias", {1: math.inf}),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(name: str, value: object):
    with pytest.raises(RequestError, match=name):
        replace(SamplingParams(), **{name: value})


def test_a_bias_on_a_token_the_model_lacks_is_refused():
    with pytest.raises(RequestError, match=f"token {V}.*ends at {V - 1}"):
        RowSampler(SamplingParams(logit_bias={V: 1.0}), V, CPU)


def test_the_first_sample_keeps_the_seed_and_others_get_their_own():
    seeds = [derived_seed(5, n) for n in range(100)]
    assert seeds[0] == 5
    assert len(set(seeds)) == 100
