"""Texts end where plain decoding ends them, wherever in an accepted draft that is."""

import time
from functools import partial
from typing import Any

import pytest
import torch
from generating import ONE, PADDED, call, knowing, network, ours, speaker
from transformers import MaxLengthCriteria, StoppingCriteria, StoppingCriteriaList

import skipstone
from skipstone.testing import tiny_network

MODEL = network().model
FREE = call(MODEL, ONE, max_new_tokens=14)
SAID = FREE[0, 5:].tolist()


def _by_knowing(**more: Any) -> torch.Tensor:
    return ours(MODEL, ONE, knowing(FREE, ONE), **{"max_new_tokens": 14, **more})


@pytest.mark.parametrize("place", range(14))
def test_an_eos_inside_an_accepted_draft_ends_the_text_there(place: int):
    settings = {"eos_token_id": [SAID[place], 63]}
    text = _by_knowing(**settings)
    assert torch.equal(text, call(MODEL, ONE, max_new_tokens=14, **settings))
    assert text[0, 5:].tolist() == SAID[: SAID.index(SAID[place]) + 1]


@pytest.mark.parametrize("budget", [1, 2, 6, 7, 8, 14])
def test_a_budget_is_kept_to_the_token(budget: int):
    assert torch.equal(_by_knowing(max_new_tokens=budget), FREE[:, : 5 + budget])
    assert torch.equal(_by_knowing(max_new_tokens=None, max_length=5 + budget), FREE[:, : 5 + budget])


def test_one_new_token_of_several_rows():
    settings = dict(PADDED, max_new_tokens=1)
    assert torch.equal(ours(MODEL, settings, "skip:plan=uniform"), call(MODEL, settings))


@pytest.mark.parametrize("limit", [3, 5, 9])
def test_a_length_criterion_of_the_callers_replaces_generates_own(limit: int):
    settings = {"max_new_tokens": 14, "stopping_criteria": StoppingCriteriaList([MaxLengthCriteria(limit)])}
    assert torch.equal(_by_knowing(**settings), call(MODEL, ONE, **settings))


def test_rows_that_end_are_padded_while_others_go_on():
    plain = call(MODEL, PADDED, max_new_tokens=14)
    eos = [int(plain[0, 8]), int(plain[1, 12])]
    settings = dict(PADDED, max_new_tokens=14, eos_token_id=eos, pad_token_id=62)
    text = call(MODEL, settings)
    assert (text == 62).any()
    assert torch.equal(ours(MODEL, settings, knowing(plain, PADDED)), text)


class Countdown(StoppingCriteria):
    """Ends a text at its n-th call, and writes down what it was shown."""

    def __init__(self, calls: int) -> None:
        self.calls, self.shown = calls, []

    def __call__(self, input_ids, scores, **kwargs):
        self.shown.append(input_ids.tolist())
        return torch.full((len(input_ids),), len(self.shown) >= self.calls)


@pytest.mark.parametrize("calls", [1, 4, 6, 7, 9])
def test_a_criterion_with_memory_is_asked_as_by_plain_decoding(calls: int):
    ours_saw, plain_saw = Countdown(calls), Countdown(calls)
    text = call(MODEL, ONE, max_new_tokens=14, stopping_criteria=StoppingCriteriaList([plain_saw]))
    assert text.shape[1] == 5 + calls
    assert torch.equal(_by_knowing(stopping_criteria=StoppingCriteriaList([ours_saw])), text)
    assert ours_saw.shown == plain_saw.shown


def test_a_criterion_may_look_at_the_scores():
    class Unsure(StoppingCriteria):
        def __call__(self, input_ids, scores, **kwargs):
            assert len(scores) == input_ids.shape[1] - 5
            return scores[-1].softmax(-1).amax(-1) < 0.5

    settings = {
        "max_new_tokens": 14,
        "stopping_criteria": StoppingCriteriaList([Unsure()]),
        "return_dict_in_generate": True,
        "output_scores": True,
    }
    text = call(MODEL, ONE, **settings).sequences
    assert 6 < text.shape[1] < 19
    assert torch.equal(_by_knowing(**settings).sequences, text)


def test_a_criterion_that_answers_with_one_bool_will_do():
    def until_length_eight(input_ids, scores, **kwargs):
        return input_ids.shape[1] >= 8

    assert torch.equal(_by_knowing(stopping_criteria=StoppingCriteriaList([until_length_eight])), FREE[:, :8])


def test_several_rows_are_decoded_plainly_for_a_criterion_that_may_look_at_all_of_them():
    settings = dict(PADDED, max_new_tokens=14, eos_token_id=63)
    text = call(MODEL, settings, stopping_criteria=StoppingCriteriaList([Countdown(5)]))
    with pytest.warns(UserWarning, match="plainly: Countdown may look at all rows"):
        assert torch.equal(ours(MODEL, settings, stopping_criteria=StoppingCriteriaList([Countdown(5)])), text)


def test_rows_that_transformers_lets_run_on_are_decoded_plainly():
    class Three(StoppingCriteria):
        stateless = True

        def __call__(self, input_ids, scores, **kwargs):
            return input_ids[:, -1] % 3 == 0

    settings = dict(PADDED, max_new_tokens=14)
    text = call(MODEL, settings, stopping_criteria=StoppingCriteriaList([Three()]))
    with pytest.warns(UserWarning, match="eos_token_id"):
        assert torch.equal(ours(MODEL, settings, stopping_criteria=StoppingCriteriaList([Three()])), text)


def test_time_runs_out_in_the_middle_of_a_text():
    began = time.monotonic()
    text = ours(MODEL, ONE, "ngram", max_new_tokens=200, max_time=0.05)
    assert 5 < text.shape[1] < 205
    assert time.monotonic() - began < 5


# stop strings


def _spoken(length: int = 40) -> tuple[dict[str, Any], torch.Tensor, str]:
    model, tokenizer = speaker()
    prompt = {"input_ids": [tokenizer.encode("The cat and the dog and the")]}
    text = call(model, prompt, max_new_tokens=length, eos_token_id=None)
    return prompt, text, tokenizer.decode(text[0, len(prompt["input_ids"][0]) :])


@pytest.mark.parametrize("drafter", ["knowing", "ngram:min=1", "skip:plan=uniform"])
@pytest.mark.parametrize("start", [3, 11, 17])
def test_a_stop_string_inside_an_accepted_draft_ends_the_text_there(start: int, drafter: str):
    model, tokenizer = speaker()
    prompt, text, said = _spoken()
    stops = {"stop_strings": ["no such text", said[start : start + 3]], "tokenizer": tokenizer, "max_new_tokens": 40}
    plain = call(model, prompt, eos_token_id=None, **stops)
    assert plain.shape[1] < text.shape[1]
    chosen = knowing(text, prompt) if drafter == "knowing" else drafter
    assert torch.equal(ours(model, prompt, chosen, eos_token_id=None, **stops), plain)


def test_stop_strings_and_tokenizer_may_be_bound_to_decode():
    model, tokenizer = speaker()
    prompt, _, said = _spoken()
    stops = {"stop_strings": said[9:12], "tokenizer": tokenizer}
    plain = call(model, prompt, eos_token_id=None, max_new_tokens=40, **stops)
    bound = partial(skipstone.decode, drafter="none", **stops)
    assert torch.equal(call(model, prompt, eos_token_id=None, max_new_tokens=40, custom_generate=bound), plain)


# the model's context


@pytest.mark.parametrize("prompt", [[*range(1, 16)], [3] * 12, [5, 6] * 4])
@pytest.mark.parametrize("drafter", ["ngram:min=1", "skip:plan=uniform,width=2", "exit:layer=1"])
def test_a_text_may_end_at_the_context_and_behind_it_as_in_transformers(drafter: str, prompt: list[int]):
    model = tiny_network(layers=3, agreeing=0.9, max_position_embeddings=16).model
    for more in (1, 16 - len(prompt), 24 - len(prompt)):
        settings = {"input_ids": [prompt], "max_new_tokens": more}
        assert torch.equal(ours(model, settings, drafter), call(model, settings))
