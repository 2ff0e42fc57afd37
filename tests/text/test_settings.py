"""Settings with Hugging Face names: checked by themselves, against each other and against the model's own."""

from __future__ import annotations

from typing import Any

import pytest

from skipstone.errors import RequestError, UsageError
from skipstone.text.settings import GenerationSettings

SAMPLES = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.1}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens=0 is out of range: use 1 or more"),
        ({"max_new_tokens": -1}, "max_new_tokens=-1 is out of range"),
        ({"max_new_tokens": 3.5}, r"max_new_tokens=3\.5 is not a whole number"),
        ({"max_new_tokens": None}, "max_new_tokens=None is not a whole number"),
        ({"max_new_tokens": True}, "max_new_tokens=True is not a whole number"),
        ({"temperature": float("nan")}, "temperature=nan is out of range"),
        ({"temperature": -0.1}, r"temperature=-0\.1 is out of range"),
        ({"temperature": float("inf")}, "temperature=inf is out of range"),
        ({"temperature": "hot"}, "temperature='hot' is not a number"),
        ({"top_p": 0}, "top_p=0 is out of range"),
        ({"top_p": 1.5}, r"top_p=1\.5 is out of range"),
        ({"top_k": -1}, "top_k=-1 is out of range"),
        ({"min_p": 2}, "min_p=2 is out of range"),
        ({"repetition_penalty": 0}, "repetition_penalty=0 is out of range"),
        ({"presence_penalty": float("inf")}, "presence_penalty=inf is out of range"),
        ({"seed": 2**64}, r"seed=18446744073709551616 is out of range: use -2\^63 to 2\^64 - 1"),
        ({"seed": -(2**63) - 1}, "seed=-9223372036854775809 is out of range"),
        ({"num_return_sequences": 0}, "num_return_sequences=0 is out of range"),
        ({"logprobs": -1}, "logprobs=-1 is out of range"),
        ({"stop_strings": ""}, "stop_strings='': each must be text and not empty"),
        ({"stop_strings": ["a", ""]}, "each must be text and not empty"),
        ({"stop_strings": [1]}, "each must be text and not empty"),
        ({"eos_token_id": "</s>"}, "'<' is not a token id"),
        ({"stop_token_ids": [1.5]}, r"1\.5 is not a token id"),
        ({"max_tokens": 5}, 'no argument "max_tokens": did you mean "max_new_tokens"'),
    ],
)
def test_a_setting_that_cannot_work_is_named(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        GenerationSettings.of(**given)


@pytest.mark.parametrize("seed", [-(2**63), -1, 0, 2**64 - 1])
def test_every_seed_that_torch_takes_is_a_seed(seed: int) -> None:
    assert GenerationSettings(seed=seed).sampling({}).seed == seed


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"do_sample": True, "temperature": 0}, "contradict each other"),
        ({"do_sample": False, "temperature": 0.7}, "contradict each other"),
        ({"top_k": 5}, "top_k has no effect on greedy decoding"),
        ({"top_p": 0.5, "temperature": 0}, "top_p has no effect on greedy decoding"),
        ({"min_p": 0.5, "do_sample": False}, "min_p has no effect on greedy decoding"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        GenerationSettings.of(**given).sampling({})


def test_without_settings_decoding_is_greedy() -> None:
    assert GenerationSettings().sampling({}).temperature == 0


@pytest.mark.parametrize("given", [{"temperature": 0.7}, {"do_sample": True, "temperature": 0.7}])
def test_a_temperature_samples(given: dict[str, Any]) -> None:
    assert GenerationSettings.of(**given).sampling({}).temperature == 0.7


def test_sampling_without_a_temperature_has_temperature_one() -> None:
    assert GenerationSettings(do_sample=True).sampling({}).temperature == 1


def test_what_the_model_recommends_is_the_default() -> None:
    chosen = GenerationSettings().sampling(SAMPLES)
    assert (chosen.temperature, chosen.top_p, chosen.top_k, chosen.repetition_penalty) == (0.6, 0.9, 20, 1.1)


def test_what_is_given_goes_before_what_the_model_recommends() -> None:
    chosen = GenerationSettings(temperature=1.5, top_k=0, repetition_penalty=1.0).sampling(SAMPLES)
    assert (chosen.temperature, chosen.top_p, chosen.top_k, chosen.repetition_penalty) == (1.5, 0.9, 0, 1.0)


@pytest.mark.parametrize("given", [{"temperature": 0}, {"do_sample": False}])
def test_greedy_decoding_can_be_asked_of_a_model_that_recommends_sampling(given: dict[str, Any]) -> None:
    chosen = GenerationSettings.of(**given).sampling(SAMPLES)
    assert (chosen.temperature, chosen.top_p, chosen.top_k) == (0, 1, 0)


def test_a_recommendation_that_is_no_number_is_named_with_the_way_out() -> None:
    with pytest.raises(
        UsageError, match="generation_config asks for temperature='hot', not a number: give temperature"
    ):
        GenerationSettings().sampling({"do_sample": True, "temperature": "hot"})
    assert GenerationSettings(temperature=0.5).sampling({"do_sample": True, "temperature": "hot"}).temperature == 0.5


def test_a_recommendation_out_of_range_is_named() -> None:
    with pytest.raises(RequestError, match="top_p=0 is out of range"):
        GenerationSettings().sampling({"do_sample": True, "top_p": 0})


@pytest.mark.parametrize(
    ("given", "recommended", "of_tokenizer", "expected"),
    [
        (None, [2, 3], 9, {2, 3}),
        (None, 2, 9, {2}),
        (None, None, 9, {9}),
        (None, None, None, set()),
        (5, [2, 3], 9, {5}),
        ([5, 6], 2, 9, {5, 6}),
        ([], 2, 9, set()),
    ],
)
def test_the_end_of_text_is_the_given_one_or_the_models_or_the_tokenizers(
    given: Any, recommended: Any, of_tokenizer: int | None, expected: set[int]
) -> None:
    settings = GenerationSettings(eos_token_id=given)
    assert settings.eos_ids({"eos_token_id": recommended}, of_tokenizer) == expected


def test_lists_of_ends_may_be_anything_that_can_be_gone_through() -> None:
    settings = GenerationSettings(
        eos_token_id=filter(None, [3, 0]),  # type: ignore[arg-type]
        stop_token_ids=(token for token in [5]),  # type: ignore[arg-type]
        stop_strings=map(str.strip, [" stop "]),  # type: ignore[arg-type]
    )
    assert settings.eos_ids({}, None) == {3}
    assert (tuple(settings.stop_token_ids), settings.stops()) == ((5,), ("stop",))


def test_a_seed_is_drawn_where_none_is_given() -> None:
    assert len({GenerationSettings().sampling({}).seed for _ in range(4)}) > 1
