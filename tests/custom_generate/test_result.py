"""What comes back has the shapes, types and numbers of transformers' own result."""

import pytest
import torch
from generating import ONE, PADDED, call, knowing, network, ours
from transformers.generation import GenerateDecoderOnlyOutput

MODEL = network().model
PLAIN = call(MODEL, PADDED, max_new_tokens=14)
EOS = {"eos_token_id": [int(PLAIN[0, 8]), int(PLAIN[1, 12])], "repetition_penalty": 1.1}


@pytest.mark.parametrize("drafter", ["none", "ngram:min=1", "skip:plan=uniform,width=2"])
@pytest.mark.parametrize("prompts", [ONE, PADDED], ids=["one", "padded"])
def test_scores_and_logits_are_those_of_plain_decoding(prompts: dict, drafter: str):
    settings = dict(
        prompts, max_new_tokens=14, return_dict_in_generate=True, output_scores=True, output_logits=True, **EOS
    )
    plain, drafted = call(MODEL, settings), ours(MODEL, settings, drafter)
    assert type(drafted) is GenerateDecoderOnlyOutput
    assert torch.equal(drafted.sequences, plain.sequences)
    for name in ("scores", "logits"):
        assert all(isinstance(getattr(result, name), tuple) for result in (plain, drafted))
        torch.testing.assert_close(getattr(drafted, name), getattr(plain, name))


def test_transition_scores_can_be_computed():
    settings = dict(PADDED, max_new_tokens=14, return_dict_in_generate=True, output_scores=True, **EOS)
    plain, drafted = (
        MODEL.compute_transition_scores(result.sequences, result.scores, normalize_logits=True)
        for result in (call(MODEL, settings), ours(MODEL, settings, knowing(PLAIN, PADDED)))
    )
    torch.testing.assert_close(drafted, plain)


def test_what_is_not_asked_for_is_not_there():
    result = ours(MODEL, ONE, max_new_tokens=4, return_dict_in_generate=True)
    assert list(result) == ["sequences"]
    assert isinstance(ours(MODEL, ONE, max_new_tokens=4, output_scores=True), torch.Tensor)


def test_sequences_have_the_type_of_the_prompts():
    text = ours(MODEL, ONE, max_new_tokens=4)
    assert (text.dtype, text.shape, text.is_inference()) == (torch.long, (1, 9), False)
