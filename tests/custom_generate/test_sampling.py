"""Samples have the distribution transformers would draw from, and are the same whoever drafts."""

from typing import Any

import pytest
import torch
import transformers
from chi_square import p_value
from generating import DRAFTERS, ONE, PADDED, call, network, ours, wild

from skipstone.testing import tiny_network

SIGNIFICANT = 1e-3
V, PROMPT = 12, [3]  # a prompt of one token needs no prefill
SMALL = tiny_network(layers=3, agreeing=0.7, vocab_size=V, seed=3).model
SETTINGS: dict[str, dict[str, Any]] = {
    "as it is": {"top_k": 0},
    "cut": {"temperature": 1.4, "top_k": 9, "top_p": 0.9, "min_p": 0.02},
    "penalised": {
        "temperature": 0.8,
        "repetition_penalty": 1.5,
        "sequence_bias": {(4,): 2.0},
        "typical_p": 0.95,
        "top_k": 0,
    },
}


def _pairs(drafter: str, **settings: Any) -> torch.Tensor:
    """Counts [V, V] of the first two tokens of many samples."""
    prompts = dict(input_ids=[PROMPT], num_return_sequences=200, max_new_tokens=2, do_sample=True, **settings)
    counts = torch.zeros(V, V)
    for _ in range(4):
        for *_, first, second in ours(SMALL, prompts, drafter).tolist():
            counts[first, second] += 1
    return counts


def _expected(**settings: Any) -> torch.Tensor:
    """[V, V] by transformers' own processors; every second token has its own prefix."""
    config = transformers.GenerationConfig(do_sample=True, **settings)
    SMALL._prepare_special_tokens(config)
    texts = torch.tensor([[*PROMPT, token] for token in range(V)])
    processors = SMALL._get_logits_processor(config, input_ids_seq_length=len(PROMPT), encoder_input_ids=texts[:1, :-1])
    logits = SMALL(texts).logits.detach().float()
    first = processors(texts[:1, :-1], logits[:1, -2]).softmax(-1)[0]
    return first[:, None] * processors(texts, logits[:, -1]).softmax(-1)


@pytest.mark.parametrize("name", SETTINGS)
def test_samples_have_transformers_distribution(name: str):
    torch.manual_seed(5)
    assert p_value(_pairs("skip:plan=uniform,depth=1", **SETTINGS[name]), _expected(**SETTINGS[name])) > SIGNIFICANT


def test_other_settings_have_another_distribution():
    """The control: the test above could fail."""
    torch.manual_seed(5)
    assert p_value(_pairs("skip:plan=uniform,depth=1", top_k=0), _expected(top_k=0, temperature=1.2)) < SIGNIFICANT


SAMPLING = {"do_sample": True, "max_new_tokens": 16, "temperature": 1.2, "top_p": 0.95}


@pytest.mark.parametrize("prompts", [ONE, PADDED], ids=["one", "padded"])
def test_a_seed_gives_the_same_samples_whoever_drafts(prompts: dict):
    model = network().model
    settings = dict(prompts, **SAMPLING, repetition_penalty=1.2, eos_token_id=[1, 2, 3], seed=7)
    plain = ours(model, settings, "none")
    for drafter in (*DRAFTERS, wild(plain, prompts)):
        assert torch.equal(ours(model, settings, drafter), plain)


def test_the_seed_comes_from_torchs_own_generator():
    model = network().model
    transformers.set_seed(3)
    first, second = (ours(model, ONE, **SAMPLING) for _ in range(2))
    torch.manual_seed(3)
    again = ours(model, ONE, "skip:plan=uniform", **SAMPLING)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_a_given_seed_and_greedy_decoding_leave_torchs_generator_alone():
    model = network().model
    before = torch.get_rng_state()
    ours(model, ONE, seed=3, **SAMPLING)
    ours(model, ONE, max_new_tokens=4)
    assert torch.equal(torch.get_rng_state(), before)


def test_samples_of_one_prompt_differ():
    texts = ours(network().model, dict(ONE, num_return_sequences=4), seed=1, **SAMPLING)
    assert len({tuple(text) for text in texts.tolist()}) == 4


def test_each_of_several_prompts_may_have_several_samples():
    settings = dict(PADDED, num_return_sequences=2, **SAMPLING, repetition_penalty=1.3, encoder_repetition_penalty=1.3)
    model = network().model
    drafted = ours(model, settings, "skip:plan=uniform", seed=4)
    assert drafted.shape[0] == 6
    assert torch.equal(drafted, ours(model, settings, "none", seed=4))


def test_plain_decoding_of_rows_keeps_to_the_seed():
    class Unknown:
        def __call__(self, input_ids, scores):
            return scores

    settings = dict(PADDED, **SAMPLING, logits_processor=transformers.LogitsProcessorList([Unknown()]))
    model = network().model
    with pytest.warns(UserWarning, match="plainly"):
        first, second = (ours(model, settings, seed=2) for _ in range(2))
    assert torch.equal(first, second)
    torch.manual_seed(2)
    assert torch.equal(call(model, settings), first)
