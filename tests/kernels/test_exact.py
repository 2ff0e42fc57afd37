"""Exact mode: one shape for every run, so that drafted text is plain text to the last bit."""

from __future__ import annotations

import pytest
import torch
from decoding import FUSED, NETWORKS, alone, network

from skipstone.cache import KVCache, Placement
from skipstone.draft.exit import ExitDrafter
from skipstone.draft.skip import SkipDrafter
from skipstone.errors import UsageError
from skipstone.hf.prepare import prepare
from skipstone.kernels.exact import ExactNetwork, check_exact
from skipstone.network import Run
from skipstone.request import Request
from skipstone.sampling import SamplingParams
from skipstone.testing import check_network
from skipstone.testing.tiny import tiny_model


def packed(kind: str, model_type: str = "llama") -> ExactNetwork:
    model = tiny_model(model_type, layers=3, dtype=torch.float32)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.half().float())
    return ExactNetwork(prepare(model, kind).network, nodes=5)


@pytest.mark.parametrize("name", [*NETWORKS, *FUSED])
def test_exact_networks_keep_the_contract_of_a_network(name: str) -> None:
    check_network(ExactNetwork(network(name), nodes=3))


@pytest.mark.parametrize("nodes", [1, 3, 64])
def test_texts_are_those_without_it(nodes: int) -> None:
    request = Request([5, 9, 60, 3], 12, SamplingParams(temperature=0.8, seed=2))
    assert alone(ExactNetwork(network(), nodes), request).tokens == alone(network(), request).tokens


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("drafter", ["skip", "exit"])
def test_logprobs_of_drafted_text_are_those_of_plain_text_to_the_last_bit(kind: str, drafter: str) -> None:
    net = packed(kind)
    try:
        check_exact(net)
    except UsageError as error:
        pytest.skip(f"this machine's kernels: {error}")
    made = {
        "skip": SkipDrafter(SkipDrafter.Options(attn="1", depth=4), net),
        "exit": ExitDrafter(ExitDrafter.Options(layer=1, depth=6), net),
    }
    request = Request([5, 9, 60, 3, 8, 1], 24, logprobs=2)
    drafted, plain = alone(net, request, made[drafter]), alone(net, request)
    assert drafted.tokens == plain.tokens
    assert drafted.logprobs == plain.logprobs


def test_the_last_slots_of_a_cache_can_be_used() -> None:
    net = ExactNetwork(network(), nodes=4)
    request = Request([5, 9, 60], 5)
    cache = net.new_cache(1, 8)
    assert cache.capacity == 8
    assert alone(net, request).tokens == alone(network(), request).tokens


class ByPlace(ExactNetwork):
    """A network whose numbers depend on a node's place in a run, as kernels' do on some machines."""

    def __init__(self) -> None:
        super().__init__(network(), nodes=3)
        self.inner = Tilted()


class Tilted:
    def __getattr__(self, name: str) -> object:
        return getattr(network(), name)

    def run(self, x: torch.Tensor, placement: Placement, cache: KVCache, plan: object, taps: object = ()) -> Run:
        hidden = network().run(x, placement, cache, plan).hidden  # type: ignore[arg-type]
        return Run(hidden + 1e-9 * torch.arange(x.shape[1])[None, :, None])


def test_a_machine_on_which_it_cannot_be_had_is_told() -> None:
    with pytest.raises(UsageError, match="exact mode cannot be had here"):
        check_exact(ByPlace())


def test_runs_of_no_nodes_are_refused() -> None:
    with pytest.raises(UsageError, match="runs of 0 nodes"):
        ExactNetwork(network(), nodes=0)
