"""What cannot be served is refused by its name; nothing vanishes."""

import inspect
from functools import partial
from typing import Any

import pytest
import torch
from generating import ONE, PADDED, call, network, ours
from transformers import AutoConfig, AutoModelForSeq2SeqLM, DynamicCache, GenerationConfig

import skipstone
from skipstone.draft.ngram import NgramDrafter
from skipstone.errors import RequestError, UnsupportedModel, UsageError
from skipstone.testing import tiny_network

MODEL = network().model

ARGUMENTS: dict[str, dict[str, Any]] = {
    "num_beams": {"num_beams": 2},
    "penalty_alpha": {"penalty_alpha": 0.6, "top_k": 4},
    "dola_layers": {"dola_layers": "high"},
    "constraints": {"constraints": [object()], "num_beams": 1},
    "force_words_ids": {"force_words_ids": [[5]]},
    "assistant_model": {"assistant_model": MODEL},
    "prompt_lookup_num_tokens": {"prompt_lookup_num_tokens": 3},
    "assistant_early_exit": {"assistant_early_exit": 2},
    "synced_gpus": {"synced_gpus": True},
    "output_attentions": {"output_attentions": True, "return_dict_in_generate": True},
    "output_hidden_states": {"output_hidden_states": True, "return_dict_in_generate": True},
    "cache_implementation": {"cache_implementation": "static"},
    "use_cache": {"use_cache": False},
    "inputs_embeds": {"input_ids": None, "inputs_embeds": torch.zeros(1, 3, 32, dtype=torch.float64)},
    "position_ids": {"position_ids": torch.arange(2, 7)[None]},
    "stop_strings": {"stop_strings": ["x"]},
    "seed": {"seed": "x"},
}


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.filterwarnings("ignore::UserWarning:transformers")
def test_an_argument_that_cannot_be_served_is_named(name: str):
    settings = {k: v for k, v in {**ONE, "max_new_tokens": 4, **ARGUMENTS[name]}.items() if v is not None}
    with pytest.raises(UsageError, match=name):
        ours(MODEL, settings)


@pytest.mark.parametrize("length", [0, 3])
def test_a_cache_of_the_callers_is_refused(length: int):
    name = "cache" if "cache" in inspect.signature(MODEL.forward).parameters else "past_key_values"
    cache = {name: DynamicCache()}
    if length:
        MODEL(torch.tensor([[3, 9, 27]]), **cache)
    with pytest.raises(UsageError, match=rf"{name} is not supported .* give the whole text"):
        ours(MODEL, ONE, max_new_tokens=4, **cache)


def test_a_name_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="dratfer"):  # by transformers
        ours(MODEL, ONE, dratfer="none", max_new_tokens=4)
    with pytest.raises(UsageError, match="ngrm"):
        ours(MODEL, ONE, "ngrm", max_new_tokens=4)


def test_a_lossy_early_exit_is_refused():
    with pytest.raises(ValueError, match="early_exit"):  # by transformers
        ours(MODEL, ONE, early_exit=2, max_new_tokens=4)
    early = partial(skipstone.decode, early_exit=2)
    with pytest.raises(UsageError, match=r"early_exit is not supported .* whole model's: skipstone\.load takes it"):
        call(MODEL, ONE, custom_generate=early, max_new_tokens=4)


def test_a_drafter_that_is_no_drafter_is_refused():
    with pytest.raises(UsageError, match="drafter=3 is neither a name"):
        ours(MODEL, ONE, 3, max_new_tokens=4)


def test_arguments_of_the_models_forward_pass_are_refused():
    with pytest.raises(UsageError, match="labels is not supported"):
        ours(MODEL, ONE, labels=torch.zeros(1, 5), max_new_tokens=4)


MASKS = {
    "padding on the right": [[1, 1, 1, 1, 0, 0], [1] * 6, [1] * 6],
    "a hole": [[1, 1, 0, 1, 1, 1], [1] * 6, [1] * 6],
    "a row of padding": [[0] * 6, [1] * 6, [1] * 6],
    "a weight": [[2] * 6, [1] * 6, [1] * 6],
    "another shape": [[0, 1, 1, 1, 1]] * 3,
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_that_is_not_padding_on_the_left_is_refused(name: str):
    with pytest.raises((UsageError, RequestError), match=r"left|empty|0 for padding|one for each"):
        ours(MODEL, {**PADDED, "attention_mask": MASKS[name], "max_new_tokens": 4})


def test_position_ids_that_say_what_the_mask_says_are_fine():
    mask = torch.tensor(PADDED["attention_mask"])
    positions = (mask.cumsum(-1) - 1).clamp_min(0)
    text = call(MODEL, PADDED, max_new_tokens=6)
    assert torch.equal(ours(MODEL, PADDED, max_new_tokens=6, position_ids=positions), text)


def test_rows_of_different_length_need_a_padding_token():
    class Odd:
        eos_token_id = 1
        stateless = True

        def __call__(self, input_ids, scores, **kwargs):
            return input_ids[:, -1] % 2 == 1

    from transformers import StoppingCriteriaList

    settings = {k: v for k, v in PADDED.items() if k != "pad_token_id"}
    with pytest.raises(UsageError, match="pad_token_id"):
        ours(MODEL, settings, max_new_tokens=9, stopping_criteria=StoppingCriteriaList([Odd()]))


def test_a_model_in_training_mode_is_refused():
    model = tiny_network(layers=2).model.train()
    with pytest.raises(UsageError, match=r"model\.eval\(\)"):
        ours(model, ONE, max_new_tokens=4)


def test_an_encoder_decoder_is_refused():
    config = AutoConfig.for_model("t5", d_model=16, d_ff=16, d_kv=8, num_layers=1, num_heads=2, vocab_size=64)
    model = AutoModelForSeq2SeqLM.from_config(config).eval()
    model.generation_config = GenerationConfig(decoder_start_token_id=0, max_new_tokens=4)
    with pytest.raises(UnsupportedModel, match="encoder-decoder"):
        ours(model, ONE)


def test_a_drafter_may_be_an_object():
    drafter = NgramDrafter(NgramDrafter.Options(min=1), network())
    assert torch.equal(ours(MODEL, ONE, drafter, max_new_tokens=9), call(MODEL, ONE, max_new_tokens=9))


def test_names_in_the_callers_own_frame_mean_nothing():
    custom_generate, assistant_model, streamer, kwargs = (
        skipstone.decode,
        MODEL,
        object(),
        {"assistant_tokenizer": object()},
    )
    text = MODEL.generate(torch.tensor([[3, 9]]), custom_generate=custom_generate, max_new_tokens=4)
    assert text.shape == (1, 6)
    assert all((assistant_model, streamer, kwargs))
