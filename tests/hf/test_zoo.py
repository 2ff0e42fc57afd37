"""Every type we say we support, in float64 against transformers' own forward, in configurations that hide nothing."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from zoo import FIRST, ZOO, built, network, prompt

from skipstone.hf.network import HFNetwork
from skipstone.hf.selfcheck import parity_gap
from skipstone.plan import LayerPlan
from skipstone.request import Request
from skipstone.testing import plain_text
from skipstone.tree import Topology

LENGTH = 32  # tokens, more than six windows
EXACT = 1e-9
FLOAT32 = 1e-6  # where the model's own code rounds to float32, sums over chunks round differently than sums over all


@pytest.mark.parametrize("name", ZOO)
def test_a_whole_text_has_the_models_own_logits(name: str):
    """In one run, so that both do the same arithmetic, whatever precision the model takes for it."""
    net = network(name)
    assert _gap(_logits(net), _own(net.model)) <= EXACT


def _logits(net: HFNetwork) -> Tensor:
    cache = net.new_cache(1, LENGTH)
    cache.reset(0, LENGTH)
    placement = cache.place(Topology.chain(LENGTH), [0])
    return net.logits(net.run(torch.tensor([prompt(LENGTH)]), placement, cache, LayerPlan.full(net.num_layers)).hidden)


@torch.inference_mode()
def _own(model: Any) -> Tensor:
    return model(torch.tensor([prompt(LENGTH)]), use_cache=False).logits


def _gap(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1.0))


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("start", [0, 100])
def test_a_text_in_parts_has_the_models_own_logits(name: str, start: int):
    """Half of it as a prompt, half as a tree with a side branch, resumed in the middle of the network."""
    net = network(name)
    if start and net.alibi is not None:
        pytest.skip("its own code gives ALiBi no positions")
    limit = FLOAT32 if ZOO[name].rounds else EXACT
    assert parity_gap(net, prompt(LENGTH), start) <= limit


@pytest.mark.parametrize("name", ZOO)
def test_greedy_text_is_that_of_generate(name: str):
    net, asked = network(name), prompt(12)
    ids = torch.tensor([asked])
    theirs = net.model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12)
    assert plain_text(net, Request(asked, 12)) == theirs[0, len(asked) :].tolist()


@pytest.mark.parametrize("name", ZOO)
def test_every_weight_makes_a_difference(name: str):
    """Otherwise the tests above could not tell whether it is used."""
    model: Any = network(name).model
    with torch.enable_grad():
        for weight in model.parameters():
            weight.requires_grad_(True)
        logits = model(torch.tensor([prompt(LENGTH)]), use_cache=False).logits
        (logits * torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).view_as(logits)).sum().backward()
    idle = [n for n, w in model.named_parameters() if w.grad is None or float(w.grad.abs().max()) < 1e-6]
    for weight in model.parameters():
        weight.requires_grad_(False).grad = None
    assert [weight for weight in idle if not weight.endswith(_WITHOUT_GRADIENT)] == []


# biases on keys without rotary angles add the same to all scores; those of routers only decide who is chosen
_WITHOUT_GRADIENT = ("k_proj.bias", "e_score_correction_bias", "expert_bias")


@pytest.mark.parametrize("name", FIRST)
def test_float32_weights_are_computed_with_in_float64_to_judge_near_ties(name: str):
    """Experts, too, whose grouped products know no float64."""
    net = built(name, torch.float32)
    wide = copy.deepcopy(net.model).double()
    if hasattr(wide, "set_experts_implementation"):
        wide.set_experts_implementation("eager")
    assert _gap(_logits(net.in_float64()), _own(wide)) <= EXACT
