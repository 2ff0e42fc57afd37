"""Our forward pass against transformers' own, in float64; drafts that equal plain decoding prove nothing of it."""

import copy
from functools import cache
from typing import Any

import pytest
import torch
import transformers
from decoding import plain
from serial_cases import ALL, BY_LENGTH, ORIGINAL
from torch import Tensor

from skipstone.draft.exit import ExitDrafter
from skipstone.draft.skip import SkipDrafter
from skipstone.engine import Engine
from skipstone.hf.attention import cache_keyword
from skipstone.hf.network import HFNetwork
from skipstone.hf.selfcheck import check_parity
from skipstone.plan import LayerPlan
from skipstone.request import Request
from skipstone.testing import check_network, plain_text, tiny_network
from skipstone.tree import Topology

ATOL = 1e-9

TREE = Topology((-1, 0, 1, 0, 3, 4, 1, 2, 7))  # branches longer than a window, away from their positions
TREE_TOKENS = [8, 31, 7, 9, 30, 2, 63, 11, 8]


@cache
def _network(case: str) -> HFNetwork:
    return tiny_network(layers=3, agreeing=0.5, **ALL[case])


def _prompt(length: int, shift: int = 0) -> list[int]:
    return [(3 + shift + 17 * n) % 64 for n in range(length)]


def _fresh(net: HFNetwork) -> Any:
    """The model as just loaded: dynamic rotary modules otherwise remember longer texts of before."""
    net.model.model.rotary_emb(torch.zeros(1), torch.zeros(1, 1, dtype=torch.long))
    return net.model


@torch.inference_mode()
def _theirs(net: HFNetwork, prompt: list[int], after: list[int]) -> Tensor:
    """Logits [V] behind ``after``, as generation computes them: the prompt in one call, then token by token."""
    cache = {cache_keyword(net.model): transformers.DynamicCache(config=net.config)}
    logits = _fresh(net)(torch.tensor([prompt]), **cache).logits
    for token in after:
        logits = net.model(torch.tensor([[token]]), **cache).logits
    return logits[0, -1]


def _generated(net: HFNetwork, prompt: list[int], count: int) -> list[int]:
    """Greedy text of ``generate``."""
    ids = torch.tensor([prompt])
    texts = _fresh(net).generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count)
    return texts[0, len(prompt) :].tolist()


def _prefilled(net: HFNetwork, prompts: list[list[int]], chunk: int):
    cache = net.new_cache(len(prompts), 4 * ORIGINAL)
    for row, prompt in enumerate(prompts):
        cache.reset(row, len(prompt))
        for start in range(0, len(prompt), chunk):
            part = prompt[start : start + chunk]
            placement = cache.place(Topology.chain(len(part)), [row])
            net.run(torch.tensor([part]), placement, cache, LayerPlan.full(net.num_layers))
            cache.commit([row], [range(len(part))])
    return cache


def _ours(net: HFNetwork, prompts: list[list[int]], chunk: int = 7, exit_layer: int = 1) -> Tensor:
    """Logits [B, N, V] of TREE behind each prompt, all rows in one call that is resumed at ``exit_layer``."""
    cache = _prefilled(net, prompts, chunk)
    placement = cache.place(TREE, range(len(prompts)))
    early = net.run(torch.tensor([TREE_TOKENS] * len(prompts)), placement, cache, LayerPlan.until(exit_layer))
    late = net.run(early.hidden, placement, cache, LayerPlan.rest(exit_layer, net.num_layers))
    return net.logits(late.hidden)


def _paths() -> list[list[int]]:
    return [[TREE_TOKENS[0], *(TREE_TOKENS[n] for n in TREE.path(node))] for node in range(len(TREE))]


@pytest.mark.parametrize("case", ALL)
@pytest.mark.parametrize("length", [3, ORIGINAL - 2, 20])
def test_every_node_of_a_tree_has_the_logits_of_generation(case: str, length: int):
    """A prompt below the original length, one that the tree takes beyond it, and one that is beyond it."""
    net, prompt = _network(case), _prompt(length)
    ours = _ours(net, [prompt])[0]
    theirs = torch.stack([_theirs(net, prompt, path) for path in _paths()])
    assert float((ours - theirs).abs().max()) <= ATOL


@pytest.mark.parametrize("case", ALL)
def test_a_longer_or_shorter_neighbour_row_changes_no_logits(case: str):
    net, prompts = _network(case), [_prompt(3), _prompt(20, shift=1), _prompt(ORIGINAL - 1, shift=2)]
    ours = _ours(net, prompts, chunk=4, exit_layer=2)
    for row, prompt in enumerate(prompts):
        theirs = torch.stack([_theirs(net, prompt, path) for path in _paths()])
        assert float((ours[row] - theirs).abs().max()) <= ATOL


@pytest.mark.parametrize("case", ALL)
def test_greedy_text_is_that_of_generate(case: str):
    net = _network(case)
    for length in (1, 9, 18):
        assert plain_text(net, Request(_prompt(length), 16)) == _generated(net, _prompt(length), 16)


@pytest.mark.parametrize("case", ALL)
def test_every_configuration_keeps_the_contract_of_a_network(case: str):
    check_network(_network(case))


@pytest.mark.parametrize("case", ALL)
def test_scores_are_those_of_the_models_own_pass(case: str):
    net, tokens = _network(case), _prompt(20)
    scores = Engine(net, plain(net), capacity=1, prefill_chunk=6).score(tokens)
    with torch.inference_mode():
        own = _fresh(net)(torch.tensor([tokens])).logits[0, :-1].log_softmax(-1)
    assert float((scores - own.gather(-1, torch.tensor(tokens[1:])[:, None])[:, 0]).abs().max()) <= ATOL


@pytest.mark.parametrize("case", ALL)
def test_the_self_check_at_load_agrees(case: str):
    assert check_parity(_network(case)) <= ATOL


def _drafted_by(net: HFNetwork, plan: LayerPlan) -> Tensor:
    """Logits [N, V] of a prompt that ran under ``plan`` alone."""
    prompt = _prompt(9)
    cache = net.new_cache(1, 10)
    placement = cache.place(Topology.chain(9), [0])
    return net.logits(net.run(torch.tensor([prompt]), placement, cache, plan).hidden)[0]


@pytest.mark.parametrize("case", ["llama", "mistral, window", "qwen2", "qwen3"])
def test_a_skip_plan_is_the_model_with_those_sublayers_silenced(case: str):
    net = _network(case)
    silent = copy.deepcopy(net.model)
    for layer in (0, 2):
        torch.nn.init.zeros_(silent.model.layers[layer].self_attn.o_proj.weight)
    torch.nn.init.zeros_(silent.model.layers[1].mlp.down_proj.weight)
    with torch.inference_mode():
        theirs = silent(torch.tensor([_prompt(9)]), use_cache=False).logits[0]
    ours = _drafted_by(net, LayerPlan.skipping(3, attn=[0, 2], mlp=[1]))
    assert float((ours - theirs).abs().max()) <= ATOL


@pytest.mark.parametrize("case", ["llama", "mistral, window", "qwen2", "qwen3"])
@pytest.mark.parametrize("layer", [1, 2])
def test_an_exit_plan_is_the_model_cut_off_there(case: str, layer: int):
    net = _network(case)
    short = copy.deepcopy(net.model)
    short.model.layers = short.model.layers[:layer]
    with torch.inference_mode():
        theirs = short(torch.tensor([_prompt(9)]), use_cache=False).logits[0]
    assert float((_drafted_by(net, LayerPlan.until(layer)) - theirs).abs().max()) <= ATOL


@pytest.mark.parametrize("case", list(BY_LENGTH))
def test_drafted_text_is_that_of_generate_beyond_the_original_length(case: str):
    net = _network(case)
    theirs = _generated(net, _prompt(8), 20)
    for drafter in (
        SkipDrafter(SkipDrafter.Options(plan="uniform", depth=6, width=2), net),
        ExitDrafter(ExitDrafter.Options(layer=2, depth=6), net),
    ):
        engine = Engine(net, drafter, rows=2, capacity=40, prefill_chunk=3)
        engine.admit(Request(_prompt(18, shift=9), 20))
        [row] = engine.admit(Request(_prompt(8), 20))
        given = []
        while engine.busy:
            given += [token for emission in engine.step() if emission.row == row for token in emission.tokens]
        assert given == theirs
