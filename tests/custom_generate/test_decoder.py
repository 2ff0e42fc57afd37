"""The callable itself: light to import, checked once a model, holding on to none."""

import gc
import subprocess
import sys
import weakref
from unittest.mock import patch

import pytest
import torch
from generating import ONE, call, knowing, network

import skipstone
from skipstone.custom_generate import decoder as module
from skipstone.custom_generate.decoder import Decoder
from skipstone.engine import Engine
from skipstone.errors import RequestError
from skipstone.request import Request
from skipstone.testing import tiny_network


def test_importing_skipstone_imports_no_transformers():
    code = "import skipstone, sys; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_decode_is_one_object_and_other_names_are_errors():
    assert skipstone.decode is skipstone.decode is module.decode
    with pytest.raises(AttributeError, match="decoed"):
        skipstone.decoed  # noqa: B018


def test_a_model_is_checked_against_its_own_pass_once():
    model, decode = tiny_network(layers=2).model, Decoder()
    with patch.object(module, "fit", wraps=module.fit) as fit:
        texts = [call(model, ONE, custom_generate=decode, max_new_tokens=4) for _ in range(3)]
    assert fit.call_count == 1
    assert torch.equal(texts[0], texts[2])


def test_weights_that_change_between_calls_count():
    model, decode = tiny_network(layers=2).model, Decoder()
    call(model, ONE, custom_generate=decode, max_new_tokens=8)
    with torch.no_grad():
        model.model.layers[0].mlp = tiny_network(layers=2, seed=5).model.model.layers[0].mlp
    model.float()
    assert torch.equal(call(model, ONE, custom_generate=decode, max_new_tokens=8), call(model, ONE, max_new_tokens=8))


@pytest.mark.parametrize("drafter", ["ngram", "skip", "swift:beta=0", "exit:budget=1"])
def test_a_model_that_is_gone_is_forgotten(drafter: str):
    model, decode = tiny_network(layers=4).model, Decoder()
    call(model, ONE, custom_generate=decode, drafter=drafter, max_new_tokens=2)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_the_default_drafts():
    """Prompt lookup, on a text that repeats itself."""
    model = network().model
    text = call(model, ONE, max_new_tokens=14)
    drafter = knowing(text, ONE)
    call(model, ONE, custom_generate=skipstone.decode, drafter=drafter, max_new_tokens=14)
    assert sum(record.emitted for record in drafter.records) == 14
    assert len(drafter.records) == 2


def test_rows_with_processors_of_their_own_share_no_request():
    class Own:
        def scores(self, logits, paths, sampler):
            return logits

        def draft_scores(self, logits, path):
            return logits

        def advance(self, tokens):
            pass

    engine = Engine(network(), knowing(torch.tensor([[1]]), {"input_ids": [[1]]}), capacity=20, rows=2)
    with pytest.raises(RequestError, match="admit a request for each"):
        engine.admit(Request([1], processors=Own()), samples=2)


def test_a_search_goes_on_from_call_to_call():
    decoder, model = Decoder(), tiny_network(layers=6, agreeing=0.9).model
    settings = {"input_ids": torch.tensor([[3, 9, 27]]), "max_new_tokens": 40, "do_sample": False}
    texts = [
        model.generate(**settings, custom_generate=decoder, drafter="skip:budget=1,loan=1000,window=8")
        for _ in range(2)
    ]
    plain = model.generate(**settings)
    assert torch.equal(texts[0], plain)
    assert torch.equal(texts[1], plain)
    (known,) = decoder._remembered.values()
    assert known.costs is not None
    (tuned,) = known.memories._by_spec.values()
    assert tuned.tuner.tokens == 80
