"""Greedy text is that of transformers' own generate, whatever processors take part and whoever drafts."""

from typing import Any

import pytest
import torch
from generating import DRAFTERS, FAMILIES, ONE, PADDED, call, network, ours, wild
from transformers import GenerationConfig, LogitsProcessorList, WatermarkingConfig

from skipstone.testing import tiny_network


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("prompts", [ONE, PADDED], ids=["one", "padded"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_drafter_on_every_family_gives_transformers_text(family: str, prompts: dict, drafter: str):
    settings = dict(prompts, max_new_tokens=16)
    model = network(family).model
    assert torch.equal(ours(model, settings, drafter), call(model, settings))


def _only_neighbours(row: int, text: torch.Tensor) -> list[int]:
    return [(int(text[-1]) + step + row) % 64 for step in range(1, 9)]


_only_neighbours.stateless = True  # type: ignore[attr-defined]


PROCESSORS: dict[str, dict[str, Any]] = {
    "eos": {"eos_token_id": [15, 19, 33]},
    "min_new_tokens": {"eos_token_id": [15, 19, 33], "min_new_tokens": 9},
    "min_length": {"eos_token_id": [15, 19, 33], "min_length": 12},
    "repetition_penalty": {"repetition_penalty": 1.6},
    "no_repeat_ngram": {"no_repeat_ngram_size": 1},
    "encoder_repetition_penalty": {"encoder_repetition_penalty": 2.5},
    "encoder_no_repeat_ngram": {"encoder_no_repeat_ngram_size": 1},
    "bad_words": {"bad_words_ids": [[15], [16, 16], [5, 9]]},
    "suppress": {"suppress_tokens": [15, 16, 17, 18, 19]},
    "begin_suppress": {"begin_suppress_tokens": list(range(40))},
    "sequence_bias": {"sequence_bias": {(15,): -5.0, (16, 16): 4.0, (3, 9): 9.0}},
    "forced_eos": {"eos_token_id": 15, "forced_eos_token_id": 15},
    "decay": {"eos_token_id": 15, "exponential_decay_length_penalty": (3, 1.4)},
    "renormalized": {"renormalize_logits": True, "remove_invalid_values": True},
    "prefix": {"prefix_allowed_tokens_fn": _only_neighbours},
    "watermark": {"watermarking_config": WatermarkingConfig(bias=4.0)},
    "watermark selfhash": {"watermarking_config": WatermarkingConfig(bias=4.0, seeding_scheme="selfhash")},
    "many": {
        **{"eos_token_id": [15, 19], "min_new_tokens": 4, "repetition_penalty": 1.3},
        **{"bad_words_ids": [[16]], "no_repeat_ngram_size": 3},
    },
}


@pytest.mark.parametrize("prompts", [ONE, PADDED], ids=["one", "padded"])
@pytest.mark.parametrize("name", PROCESSORS)
def test_every_processor_sees_what_plain_decoding_shows_it(name: str, prompts: dict):
    settings = dict(prompts, max_new_tokens=14, **PROCESSORS[name])
    model = network().model
    plain = call(model, settings)
    for drafter in ("skip:plan=uniform,width=2", wild(plain, settings)):
        assert torch.equal(ours(model, settings, drafter), plain)


@pytest.mark.parametrize("name", PROCESSORS)
def test_every_processor_matters_in_these_tests(name: str):
    """The control: without it at least one of the texts is another."""
    model = network().model
    changed = []
    for prompts in (ONE, PADDED):
        plain, with_it = (call(model, prompts, max_new_tokens=14, **more) for more in ({}, PROCESSORS[name]))
        changed.append(plain.shape != with_it.shape or not torch.equal(plain, with_it))
    assert any(changed) or name == "renormalized"


def test_a_forced_first_token_is_the_first():
    settings = {"input_ids": [[7]], "max_new_tokens": 8, "forced_bos_token_id": 33}
    model = network().model
    plain = call(model, settings)
    assert plain[0, 1] == 33
    assert torch.equal(ours(model, settings, wild(plain, settings)), plain)


def test_an_infinite_score_forces_its_token():
    class Forcing:
        stateless = True

        def __call__(self, input_ids, scores):
            scores[:, 21] = float("inf") if input_ids.shape[1] % 3 == 0 else scores[:, 21]
            return scores

    settings = dict(ONE, max_new_tokens=9)
    model = network().model
    plain = call(model, settings, logits_processor=LogitsProcessorList([Forcing()]))
    got = ours(model, settings, "skip:plan=uniform", logits_processor=LogitsProcessorList([Forcing()]))
    assert torch.equal(got, plain)


def test_a_generation_config_object_counts():
    config = GenerationConfig(repetition_penalty=1.8, max_new_tokens=11, eos_token_id=[15, 19], pad_token_id=0)
    settings = {**PADDED, "generation_config": config}
    del settings["pad_token_id"]
    assert torch.equal(ours(network().model, settings), call(network().model, settings))


def test_the_settings_of_the_models_own_generation_config_count():
    model = tiny_network(**FAMILIES["llama"]).model
    model.generation_config.update(repetition_penalty=1.8, max_new_tokens=11, eos_token_id=[15, 19])
    assert torch.equal(ours(model, PADDED, "skip:plan=uniform"), call(model, PADDED))
