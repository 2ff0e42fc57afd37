"""Multimodal models given text only: their text part, run layer by layer, says what the whole model says."""

import pytest
import torch
from versions import SINCE_5
from wrappers import WRAPPERS, model, network, prompt

from skipstone.draft.exit import ExitDrafter
from skipstone.errors import UnsupportedModel
from skipstone.hf.fit import fit
from skipstone.hf.selfcheck import parity_gap
from skipstone.request import Request
from skipstone.testing import check_drafter, check_network, plain_text


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("start", [0, 100])
def test_text_has_the_logits_of_the_whole_model(name: str, start: int):
    assert parity_gap(network(name), prompt(32), start) <= 1e-9


@pytest.mark.parametrize("name", WRAPPERS)
def test_greedy_text_is_that_of_generate(name: str):
    net, ids = network(name), torch.tensor([prompt(12)])
    theirs = net.model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12)
    assert plain_text(net, Request(prompt(12), 12)) == theirs[0, 12:].tolist()


@pytest.mark.parametrize("name", WRAPPERS)
def test_the_laws_hold_for_the_text_part(name: str):
    net = network(name)
    check_network(net)
    check_drafter(lambda net: ExitDrafter(ExitDrafter.Options(layer=1, depth=3), net), net, brief=True)


@pytest.mark.skipif(not SINCE_5, reason="needs more settings before transformers 5")
def test_layers_that_attend_to_images_are_refused():
    text = {"hidden_size": 16, "num_hidden_layers": 2, "cross_attention_layers": [1], "num_attention_heads": 2}
    text |= {"num_key_value_heads": 1, "intermediate_size": 16, "vocab_size": 64, "pad_token_id": 0}
    vision = {"hidden_size": 16, "num_hidden_layers": 1, "num_global_layers": 1, "attention_heads": 2}
    vision |= {"intermediate_size": 16, "image_size": 28, "vision_output_dim": 32, "intermediate_layers_indices": [0]}
    with pytest.raises(UnsupportedModel):
        fit(model("mllama", {"text_config": text, "vision_config": vision}))
