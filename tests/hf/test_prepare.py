"""A model is packed and fused at load where that changes nothing, and its text stays what it was."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from skipstone.errors import ParityError, UnsupportedModel, UsageError
from skipstone.hf.fit import fit
from skipstone.hf.fused import FusedNetwork
from skipstone.hf.packing import all_survive_half
from skipstone.hf.prepare import prepare
from skipstone.kernels.linear import StockLinear
from skipstone.kernels.probe import Kernel, kernel_for
from skipstone.network import Network
from skipstone.plan import LayerPlan
from skipstone.request import Request
from skipstone.testing import check_network, plain_text
from skipstone.testing.tiny import tiny_model
from skipstone.tree import Topology

SERIAL = ["llama", "mistral", "qwen2", "qwen3"]
OTHERS = ["gemma2", "gpt2", "opt", "phi", "falcon", "olmo2", "mixtral", "stablelm"]
KINDS = ["float32", "float16"]


@pytest.fixture(autouse=True, scope="module")
def kernels() -> None:
    for kind in ("float32", "float16"):
        if kernel_for(kind).kind != kind:
            pytest.skip(f"no {kind} kernel here: {kernel_for(kind).reason}")


def model(model_type: str, half: bool = True, **config: Any) -> Any:
    """A float32 model, with weights that float16 can hold unless told otherwise."""
    made = tiny_model(model_type, layers=3, dtype=torch.float32, **config)
    if half:
        with torch.no_grad():
            for weight in made.parameters():
                weight.copy_(weight.half().float())
    return made


def logits(net: Network) -> Tensor:
    tokens = torch.tensor([[(5 + 31 * n) % net.vocab_size for n in range(12)]])
    cache = net.new_cache(1, 12)
    hidden = net.run(tokens, cache.place(Topology.chain(12), [0]), cache, LayerPlan.full(net.num_layers)).hidden
    return net.logits(hidden)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model_type", SERIAL + OTHERS)
def test_packed_weights_give_the_models_own_logits(model_type: str, kind: str) -> None:
    expected = logits(fit(model(model_type))[0])
    ready = prepare(model(model_type), kind)
    assert ready.network.weights == kind
    assert isinstance(ready.network, FusedNetwork) == (model_type in SERIAL)
    assert float((logits(ready.network) - expected).abs().max()) <= 1e-4 * float(expected.abs().max())
    assert ready.gap <= 1e-4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model_type", ["qwen3", "mistral", "gpt2", "gemma2"])
def test_packed_networks_keep_the_contract_of_a_network(model_type: str, kind: str) -> None:
    check_network(prepare(model(model_type), kind).network)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model_type", ["llama", "qwen2", "phi", "gpt2"])
def test_greedy_text_is_that_of_the_model_as_it_was(model_type: str, kind: str) -> None:
    request = Request([5, 9, 60, 3], 24)
    assert plain_text(prepare(model(model_type), kind).network, request) == plain_text(
        fit(model(model_type))[0], request
    )


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", ["stock", *KINDS])
@pytest.mark.parametrize("model_type", ["qwen3", "opt"])
def test_float64_computes_with_the_packed_numbers(model_type: str, kind: str, tied: bool) -> None:
    made = lambda: model(model_type, tie_word_embeddings=tied)  # noqa: E731
    ours, theirs = prepare(made(), kind).network.in_float64(), fit(made())[0].in_float64()
    gap = (logits(ours) - logits(theirs)).abs().max() / logits(theirs).abs().max()
    assert float(gap) <= 1e-6  # the models round to float32 in their norms


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_part_of_the_vocabulary_has_the_logits_it_has_in_the_whole(kind: str, tied: bool) -> None:
    net = prepare(model("llama", tie_word_embeddings=tied), kind).network
    hidden, subset = torch.ones(1, 2, 32), torch.tensor([3, 60, 3, 0])
    assert torch.allclose(net.logits(hidden, subset), net.logits(hidden)[..., subset], atol=1e-4)


def test_packing_lets_go_of_the_models_own_weights() -> None:
    packed = model("llama", tie_word_embeddings=True)
    before = sum(weight.numel() for weight in packed.parameters())
    prepare(packed, "float16")
    assert sum(weight.numel() for weight in packed.parameters()) < before / 10  # norms


def test_auto_takes_float16_only_where_nothing_is_lost() -> None:
    assert prepare(model("llama")).network.weights == "float16"
    assert prepare(model("llama", half=False)).network.weights == "float32"


def test_one_weight_in_a_late_row_is_enough_to_keep_float32() -> None:
    net, _ = fit(model("llama"))
    assert all_survive_half(net)
    with torch.no_grad():
        net.model.model.layers[2].mlp.down_proj.weight[-1, -1] = 0.1 + 1e-6
    assert not all_survive_half(net)


def test_weights_that_lose_digits_are_told() -> None:
    ready = prepare(model("llama", half=False), "float16")
    assert ready.network.weights == "float16"
    assert "not every weight survives" in ready.notes[0]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("part", ["model.layers.2.mlp.down_proj", "lm_head"])
def test_weights_too_large_for_float16_are_refused_before_packing(
    part: str, tied: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    large = model("llama", half=False, tie_word_embeddings=tied)
    with torch.no_grad():
        large.get_submodule(part).weight[-1, -1] = -1e6
    said = r"weights float16 cannot hold weights up to 1e\+06: use weights auto or float32"
    with pytest.raises(UsageError, match=said):
        prepare(large, "float16")
    assert "out of range" not in capfd.readouterr().err
    assert prepare(large).network.weights == "float32"


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_what_is_not_float32_is_not_packed(dtype: torch.dtype) -> None:
    other = tiny_model("llama", layers=2, dtype=dtype)
    assert prepare(other).network.weights == "stock"
    with pytest.raises(UsageError, match="float16 cannot be had: packing is for models in float32"):
        prepare(other, "float16")


def test_float64_runs_the_models_own_modules() -> None:
    assert not isinstance(prepare(tiny_model("llama", layers=2)).network, FusedNetwork)


def test_a_kind_of_weights_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match='weights "int4" are not known'):
        prepare(model("llama"), "int4")


def test_a_kernel_that_is_missing_is_told_and_the_next_best_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(kind: str) -> Kernel:
        return Kernel("stock", StockLinear, "not built in" if kind != "stock" else "")

    monkeypatch.setattr("skipstone.hf.prepare.kernel_for", missing)
    ready = prepare(model("llama"))
    assert ready.network.weights == "stock"
    assert ready.notes == ["weights are not packed as float16: not built in"]
    assert float((logits(ready.network) - logits(fit(model("llama"))[0])).abs().max()) <= 1e-4


def test_packed_weights_that_compute_something_else_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(weight: Tensor, bias: Tensor | None) -> StockLinear:
        return StockLinear(weight * 1.1, bias)

    monkeypatch.setattr("skipstone.hf.prepare.kernel_for", lambda kind: Kernel(kind, wrong))
    with pytest.raises(ParityError, match="with float32 weights our forward pass differs"):
        prepare(model("llama"), "float32")


@pytest.mark.parametrize("kind", ["stock", *KINDS])
@pytest.mark.parametrize("model_type", ["gemma", "gemma2", "gemma3_text"])
def test_a_scaled_embedding_does_not_scale_the_head_it_is_tied_to(model_type: str, kind: str) -> None:
    net = prepare(model(model_type, tie_word_embeddings=True), kind).network
    hidden, subset = torch.ones(1, 2, 32), torch.tensor([3, 60, 0])
    whole = net.logits(hidden)[..., subset]
    assert torch.allclose(net.logits(hidden, subset), whole, atol=1e-3)
    assert torch.allclose(net.narrow_head(subset)(hidden), whole, atol=1e-3)


@pytest.mark.parametrize("model_type", ["llama", "gemma2"])
def test_layers_that_share_weights_keep_them(model_type: str) -> None:
    shared = model(model_type)
    layers = shared.model.layers
    layers[2].mlp.down_proj.weight = layers[1].mlp.down_proj.weight
    expected = logits(fit(shared)[0])
    ready = prepare(shared)
    assert ready.network.weights == "stock"
    assert torch.allclose(logits(ready.network), expected, atol=1e-4)
    with pytest.raises(UsageError, match="its layers share weights"):
        prepare(shared, "float32")


def test_layers_that_differ_in_their_heads_keep_their_own_modules() -> None:
    pruned = model("llama")
    attention = pruned.model.layers[1].self_attn
    for name, rows in (("q_proj", 16), ("k_proj", 8), ("v_proj", 8)):
        linear = getattr(attention, name)
        linear.weight.data, linear.out_features = linear.weight.data[:rows].clone(), rows
    attention.o_proj.weight.data, attention.o_proj.in_features = attention.o_proj.weight.data[:, :16].clone(), 16
    expected = logits(fit(pruned)[0])
    ready = prepare(pruned, "float32")
    assert not isinstance(ready.network, FusedNetwork)
    assert torch.allclose(logits(ready.network), expected, atol=1e-4)


def test_a_model_whose_weights_were_taken_says_so() -> None:
    taken = model("llama")
    prepare(taken)
    for kind in ("auto", "stock"):
        with pytest.raises(UsageError, match="were packed before"):
            prepare(taken, kind)


@pytest.mark.parametrize("kind", ["stock", *KINDS])
def test_autocast_changes_no_number(kind: str) -> None:
    made = model("llama")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        net = prepare(made, kind).network
        inside = logits(net)
    assert torch.equal(inside, logits(net))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model_type", ["llama", "gpt2"])
def test_a_packed_network_can_be_copied(model_type: str, kind: str) -> None:
    net = prepare(model(model_type), kind).network
    assert torch.allclose(logits(copy.deepcopy(net)), logits(net), atol=1e-5)


def test_a_context_of_one_token_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="a context of 1 tokens leaves no room"):
        prepare(model("llama", max_position_embeddings=1))


def test_a_long_context_costs_no_memory_before_it_is_used() -> None:
    ready = prepare(model("llama", max_position_embeddings=1 << 18))
    assert isinstance(ready.network, FusedNetwork)
    assert all(len(table._table[0]) <= 2048 for table in ready.network.tables.values())
