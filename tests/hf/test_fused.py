"""Fused blocks compute what the model's own modules compute, whatever a serial family may be configured to."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from serial_cases import ALL, ORIGINAL
from torch import Tensor

from skipstone.hf.fused import FusedNetwork
from skipstone.hf.fusible import why_not
from skipstone.hf.network import HFNetwork
from skipstone.hf.packing import fuse, fuse_lightly
from skipstone.kernels.probe import kernel_for
from skipstone.network import Network
from skipstone.plan import LayerPlan
from skipstone.testing import check_network, tiny_network
from skipstone.tree import Topology

MORE: dict[str, dict[str, object]] = {
    "smollm3, layers without positions": {"model_type": "smollm3", "no_rope_layers": [1, 0, 1]},
    "granite, factors everywhere": {
        "model_type": "granite",
        "residual_multiplier": 0.4,
        "embedding_multiplier": 3.0,
        "attention_multiplier": 0.2,
        "logits_scaling": 2.0,
    },
}
CASES = {**ALL, **MORE}
TREE = Topology((-1, 0, 1, 0, 3, 4, 1, 2, 7))
RTOL = 1e-6  # of the largest number: the models round to float32 in their norms


@cache
def generic(case: str) -> HFNetwork:
    return tiny_network(layers=3, agreeing=0.5, **CASES[case])


@cache
def fused(case: str) -> FusedNetwork:
    return fuse(tiny_network(layers=3, agreeing=0.5, **CASES[case]), kernel_for("stock"))


def apart(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


def scene(net: Network, lengths: list[int], plan: LayerPlan, nodes: int | None = None) -> tuple[Tensor, Tensor]:
    """Hidden states and logits of a draft behind prompts of ``lengths``, run in one call under ``plan``."""
    cache = net.new_cache(len(lengths), 4 * ORIGINAL)
    for row, length in enumerate(lengths):
        cache.reset(row, length)
        prompt = torch.tensor([[(3 + row + 17 * n) % 64 for n in range(length)]])
        net.run(prompt, cache.place(Topology.chain(length), [row]), cache, LayerPlan.full(net.num_layers))
        cache.commit([row], [range(length)])
    topology = TREE if nodes is None else Topology.chain(nodes)
    tokens = torch.tensor([[(8 + 23 * n) % 64 for n in range(len(topology))]] * len(lengths))
    hidden = net.run(tokens, cache.place(topology, range(len(lengths))), cache, plan).hidden
    return hidden, net.logits(hidden)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("lengths", [[3], [20], [3, 20, ORIGINAL - 1]], ids=str)
def test_a_tree_has_the_logits_of_the_generic_path(case: str, lengths: list[int]) -> None:
    assert not why_not(generic(case))
    for plan in (LayerPlan.full(3), LayerPlan.skipping(3, [1], [0, 2]), LayerPlan.until(2)):
        for ours, theirs in zip(scene(fused(case), lengths, plan), scene(generic(case), lengths, plan), strict=True):
            assert apart(ours, theirs) <= RTOL


@pytest.mark.parametrize("case", ["llama", "mistral, window", "qwen3, biases, wide heads, windows"])
@pytest.mark.parametrize("nodes", [1, 2, 40])
def test_one_node_a_few_and_many_take_different_ways_to_the_same_numbers(case: str, nodes: int) -> None:
    mine, theirs = (scene(net, [5, 2], LayerPlan.full(3), nodes)[1] for net in (fused(case), generic(case)))
    assert apart(mine, theirs) <= RTOL


@pytest.mark.parametrize("case", CASES)
def test_fused_blocks_keep_the_contract_of_a_network(case: str) -> None:
    check_network(fused(case))


def test_blocks_to_be_tried_first_are_those_that_will_run() -> None:
    light = fuse_lightly(generic("qwen2"))
    for a, b in zip(scene(light, [4], LayerPlan.full(3)), scene(fused("qwen2"), [4], LayerPlan.full(3)), strict=True):
        assert torch.allclose(a, b, atol=1e-12)


def test_the_transformers_model_still_runs_where_nothing_was_packed() -> None:
    tokens = torch.tensor([[5, 9, 60]])
    with torch.inference_mode():
        assert torch.equal(fused("qwen2").model(tokens).logits, generic("qwen2").model(tokens).logits)


@pytest.mark.parametrize("model_type", ["gemma2", "phi", "cohere", "gpt2", "mixtral", "olmo2"])
def test_other_families_are_not_fused(model_type: str) -> None:
    assert "not fused" in why_not(tiny_network(model_type, layers=2))
