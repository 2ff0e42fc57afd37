"""The first layers as a whole model: what they compute, that drafters change nothing of it, and that it is labelled."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from decoding import FUSED, NETWORKS, SLOTS, VOCAB, RandomDrafter, alone, network, plain

from skipstone.draft.exit import ExitDrafter
from skipstone.early_exit import EarlyExitNetwork
from skipstone.engine import Engine
from skipstone.errors import PlanError, UsageError
from skipstone.hf.body import body_of, layer_list
from skipstone.hf.fit import fit
from skipstone.kernels.cuda_graphs import GraphedNetwork
from skipstone.kernels.exact import ExactNetwork
from skipstone.kernels.recorder import Rerun
from skipstone.network import Network, loss_of, wrapped
from skipstone.plan import LayerPlan
from skipstone.plugins import make_drafter
from skipstone.request import Request
from skipstone.sampling import SamplingParams
from skipstone.telemetry import Summary
from skipstone.testing import check_network
from skipstone.testing.tiny import tiny_model
from skipstone.tree import Topology

TYPES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {},
    "mistral": {"sliding_window": 4},
    "gemma2": {"sliding_window": 4},
    "gpt_neox": {},
    "cohere": {},
}
REQUEST = Request([5, 9, 60, 3, 9, 60], 14, SamplingParams(temperature=0.8, seed=2), logprobs=0)
LABEL = "early exit at layer 2 of 4"


def truncated(model: Any, layer: int) -> Any:
    """transformers' own model of the first ``layer`` layers: made shorter by hand."""
    short = copy.deepcopy(model)
    layers = layer_list(body_of(short)[0])
    assert layers is not None
    del layers[layer:]
    short.config.num_hidden_layers = layer
    if getattr(short.config, "layer_types", None):
        short.config.layer_types = short.config.layer_types[:layer]
    return short


def logits(network: Network, tokens: torch.Tensor) -> torch.Tensor:
    """[1, N, V] of a whole text."""
    cache = network.new_cache(1, tokens.shape[1])
    cache.reset(0, tokens.shape[1])
    placement = cache.place(Topology.chain(tokens.shape[1]), [0])
    return network.logits(network.run(tokens, placement, cache, LayerPlan.full(network.num_layers)).hidden)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("layer", [1, 3])
@torch.no_grad()
def test_it_computes_what_a_model_of_these_layers_computes(name: str, layer: int) -> None:
    model = tiny_model(name, layers=4, **TYPES[name])
    tokens = (torch.arange(1, 12) * 7919 % VOCAB)[None]
    theirs = truncated(model, layer)(tokens).logits
    torch.testing.assert_close(logits(EarlyExitNetwork(fit(model)[0], layer), tokens), theirs, rtol=1e-9, atol=1e-9)


@torch.no_grad()
def test_its_greedy_text_is_that_of_a_model_of_these_layers() -> None:
    model = tiny_model(layers=4)
    theirs = truncated(model, 2).generate(torch.tensor([REQUEST.prompt]), max_new_tokens=14, do_sample=False)
    ours = alone(EarlyExitNetwork(fit(model)[0], 2), Request(REQUEST.prompt, 14))
    assert ours.tokens == theirs[0, len(REQUEST.prompt) :].tolist()


@pytest.mark.parametrize("name", [*NETWORKS, *FUSED])
def test_it_keeps_the_contract_of_a_network(name: str) -> None:
    check_network(EarlyExitNetwork(network(name), 2))


def test_wrappers_go_around_it_and_inside_it() -> None:
    plainly = alone(EarlyExitNetwork(network(), 2), REQUEST).tokens
    inside = EarlyExitNetwork(ExactNetwork(network(), nodes=3), 2)
    around = ExactNetwork(EarlyExitNetwork(network(), 2), nodes=3)
    graphed = GraphedNetwork(EarlyExitNetwork(network(), 2), Rerun())
    for wrapper in (inside, around, graphed):
        check_network(wrapper)
        assert alone(wrapper, REQUEST).tokens == plainly


@pytest.mark.parametrize("spec", ["ngram:min=1", "skip:attn=1,width=2", "exit:layer=1,depth=3", "exit:width=2"])
@pytest.mark.parametrize("layer", [2, 3])
def test_its_text_depends_on_no_drafter(spec: str, layer: int) -> None:
    early = EarlyExitNetwork(network(), layer)
    assert alone(early, REQUEST, make_drafter(spec, early)).tokens == alone(early, REQUEST).tokens


@pytest.mark.parametrize("seed", range(5))
def test_no_draft_whatever_it_does_changes_its_text(seed: int) -> None:
    early = EarlyExitNetwork(network(), 2)
    right = alone(early, REQUEST)
    assert alone(early, REQUEST, RandomDrafter(early, seed, lambda _: right.tokens)).tokens == right.tokens


def test_its_text_is_not_that_of_the_whole_model() -> None:
    """Else the label would be for nothing, and so would most tests here."""
    assert alone(EarlyExitNetwork(network(), 1), REQUEST).tokens != alone(network(), REQUEST).tokens


def test_its_cache_holds_the_layers_that_run() -> None:
    cache = EarlyExitNetwork(network(), 3).new_cache(2, 9)
    assert (len(cache.keys), len(cache.values), cache.rows, cache.capacity) == (3, 3, 2, 9)


def test_plans_of_the_whole_model_are_refused() -> None:
    early = EarlyExitNetwork(network(), 2)
    cache = early.new_cache(1, 4)
    with pytest.raises(PlanError, match=r"up to layer 3, but the model has layers 0\.\.1"):
        early.run(torch.tensor([[1]]), cache.place(Topology.chain(1), [0]), cache, LayerPlan.full(4))
    with pytest.raises(PlanError, match="layer=2 leaves nothing to verify with: the model has 2 layers"):
        ExitDrafter(ExitDrafter.Options(layer=2), early)


@pytest.mark.parametrize(
    ("layer", "trained", "says"),
    [
        (4, (), r"early_exit=4 .* has 4 layers, use 1 to 3 \(no trained exits are recorded\)"),
        (30, (1, 2), r"early_exit=30 .* use 1 to 3 \(trained exits: 1, 2\)"),
        (0, (), "early_exit=0 runs no layer"),
        (-1, (), "early_exit=-1 runs no layer"),
    ],
)
def test_a_layer_outside_the_model_is_refused(layer: int, trained: tuple[int, ...], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        EarlyExitNetwork(network(), layer, trained)


@pytest.mark.parametrize("layer", [1.0, "2", True, None])
def test_what_is_no_layer_is_refused(layer: Any) -> None:
    with pytest.raises(UsageError, match="is not a whole number of layers"):
        EarlyExitNetwork(network(), layer)


def test_a_model_of_one_layer_has_no_exit() -> None:
    with pytest.raises(PlanError, match="a model of 1 layer has no earlier exit"):
        EarlyExitNetwork(EarlyExitNetwork(network(), 1), 1)


def test_it_tells_what_the_model_was_trained_for() -> None:
    assert EarlyExitNetwork(network(), 2, (2, 3)).notes == ["exit 2 of 4 layers; trained exits: 2, 3"]
    assert EarlyExitNetwork(network(), 2).notes == ["exit 2 of 4 layers; no trained exits are recorded"]


def test_it_is_labelled_through_whatever_wraps_it() -> None:
    early = EarlyExitNetwork(network(), 2)
    assert loss_of(early) == LABEL
    assert loss_of(ExactNetwork(GraphedNetwork(early, Rerun()))) == LABEL
    assert loss_of(EarlyExitNetwork(EarlyExitNetwork(network(), 3), 2)) == (
        "early exit at layer 2 of 3 (early exit at layer 3 of 4)"
    )
    assert loss_of(ExactNetwork(network())) == loss_of(network()) == ""
    assert list(wrapped(ExactNetwork(early)))[1:] == [early, network()]


@pytest.mark.parametrize("wrap", [lambda network: network, ExactNetwork])
def test_every_record_of_an_engine_on_it_says_so(wrap: Any) -> None:
    early = wrap(EarlyExitNetwork(network(), 2))
    summary = Summary()
    engine = Engine(early, plain(early), capacity=SLOTS, rows=2, sinks=[summary])
    engine.admit(REQUEST, samples=2)
    records = [emission.record for emission in engine.step()]
    assert [record.lossy for record in records] == [LABEL, LABEL]
    assert engine.lossy == summary.lossy == LABEL


def test_records_of_a_whole_model_say_nothing() -> None:
    engine = Engine(network(), plain(network()), capacity=SLOTS)
    engine.admit(REQUEST)
    assert engine.lossy == engine.step()[0].record.lossy == ""
