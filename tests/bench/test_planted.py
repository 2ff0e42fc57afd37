"""Planted models: the best plan is known, and always right."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from skipstone.bench.planted import PlantedModel, Shape, exit_form, grown_model, moved, skip_form
from skipstone.bench.planted.idle import Sublayers, hidden_places, last_matrices
from skipstone.bench.planted.model import planted_skip
from skipstone.draft.skip import SkipDrafter
from skipstone.engine import Engine
from skipstone.errors import UsageError
from skipstone.hf.fit import fit
from skipstone.hf.network import HFNetwork
from skipstone.plan import LayerPlan
from skipstone.plugins import make_drafter
from skipstone.request import Request
from skipstone.telemetry import Summary
from skipstone.testing.tiny import tiny_model

SHAPE = Shape(layers=6, hidden=32, mlp=48, heads=4, kv_heads=2, vocab_size=64, context=256)
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def wide(planted: PlantedModel) -> HFNetwork:
    """The model in float64."""
    return fit(copy.deepcopy(planted.model).double())[0]


def drafted(network: HFNetwork, spec: str, tokens: int = 40) -> tuple[list[int], Summary]:
    summary = Summary()
    drafter = make_drafter(spec, network)
    engine = Engine(network, drafter, capacity=len(PROMPT) + tokens + 16, sinks=[summary])
    engine.admit(Request(PROMPT, tokens))
    out: list[int] = []
    while engine.busy:
        out += [token for emission in engine.step() for token in emission.tokens]
    return out, summary


def logits(model: object) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.tensor([PROMPT])).logits  # type: ignore[operator]


FORMS = {
    "exit": lambda seed=0, leak=0.0: exit_form(SHAPE, exit_layer=2, seed=seed, leak=leak),
    "skip": lambda seed=0, leak=0.0: skip_form(SHAPE, attn=3, seed=seed, leak=leak),
    "sublayers": lambda seed=0, leak=0.0: skip_form(SHAPE, attn=3, mlp=2, seed=seed, leak=leak),
    "grown": lambda seed=0, leak=0.0: grown_model(tiny_model(layers=4), 4, seed=seed, leak=leak),
}


@pytest.mark.parametrize("form", FORMS)
def test_drafts_of_the_best_plan_are_accepted_always(form: str) -> None:
    planted = FORMS[form]()
    network = wide(planted)
    tokens, summary = drafted(network, planted.spec(5))
    assert tokens == drafted(network, "none")[0]
    assert summary.acceptance_rate == 1
    assert summary.mean_accepted_length > 5


def test_an_exit_may_be_skipped_to_as_well() -> None:
    planted = exit_form(SHAPE, exit_layer=2)
    network = wide(planted)
    assert list(planted.exits) == [2, 3, 4, 5]
    assert drafted(network, "exit:layer=4,depth=3")[1].acceptance_rate == 1
    assert drafted(network, "skip:attn=2-5,mlp=2-5,depth=3")[1].acceptance_rate == 1


@pytest.mark.parametrize("form", FORMS)
def test_another_plan_is_not_always_accepted(form: str) -> None:
    planted = FORMS[form]()
    busy = min(set(range(planted.num_layers)) - planted.idle.attn - planted.idle.mlp)
    assert drafted(wide(planted), f"skip:attn={busy},mlp={busy},depth=3")[1].acceptance_rate < 0.9


@pytest.mark.parametrize("form", ["skip", "sublayers", "grown"])
def test_seeds_hide_the_idle_layers_differently(form: str) -> None:
    places = {FORMS[form](seed).idle for seed in range(5)}
    assert len(places) > 1
    assert FORMS[form](1).idle == FORMS[form](1).idle


def test_the_same_seed_gives_the_same_numbers() -> None:
    one, other = exit_form(SHAPE, seed=3), exit_form(SHAPE, seed=3)
    assert torch.equal(logits(one.model), logits(other.model))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_text_does_not_collapse(seed: int) -> None:
    tokens, _ = drafted(wide(exit_form(SHAPE, exit_layer=2, seed=seed)), "none", 64)
    assert len(set(tokens)) >= 10


@pytest.mark.parametrize("form", ["exit", "skip", "sublayers"])
def test_float16_holds_every_number(form: str) -> None:
    for weight in FORMS[form](leak=0.02).model.parameters():
        assert torch.equal(weight, weight.half().float())


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "smollm3"])
def test_a_grown_model_says_exactly_what_its_base_says(model_type: str) -> None:
    base = tiny_model(model_type, layers=5)
    before = logits(base)
    grown = grown_model(base, 5, seed=2)
    assert grown.num_layers == grown.model.config.num_hidden_layers == 10
    assert [layer.self_attn.layer_idx for layer in grown.model.model.layers] == list(range(10))
    assert torch.equal(logits(grown.model), before)
    with_cache = grown.model.generate(torch.tensor([PROMPT]), max_new_tokens=8, do_sample=False, pad_token_id=0)
    assert with_cache[0, len(PROMPT) :].tolist() == drafted(fit(grown.model)[0], "none", 8)[0]


def test_moving_the_idle_layers_changes_the_best_plan_and_not_the_text() -> None:
    planted = FORMS["grown"]()
    before = logits(planted.model)
    there = moved(planted, seed=5)
    assert there.best != planted.best
    assert torch.equal(logits(there.model), before)
    assert all(not linear.weight.any() for linear in last_matrices(there.model, there.idle))
    network = wide(there)
    assert drafted(network, there.spec(4))[1].acceptance_rate == 1
    assert drafted(network, planted.spec(4))[1].acceptance_rate < 1


MIXED = {
    "qwen2": {
        "use_sliding_window": True,
        "sliding_window": 3,
        "layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"],
    },
    "smollm3": {"no_rope_layers": [1, 0, 1, 1]},
}
KINDS = {"qwen2": ("layer_types", "layer_type"), "smollm3": ("no_rope_layers", "use_rope")}


@pytest.mark.parametrize("model_type", MIXED)
def test_moved_layers_take_their_kind_of_attention_along(model_type: str) -> None:
    planted = grown_model(tiny_model(model_type, layers=4, **MIXED[model_type]), 4, seed=0)
    before = logits(planted.model)
    there = moved(planted, seed=5)
    assert there.best != planted.best
    assert torch.equal(logits(there.model), before)
    attentions = [layer.self_attn for layer in there.model.model.layers]
    assert [attention.layer_idx for attention in attentions] == list(range(8))
    kinds, attribute = KINDS[model_type]
    assert [getattr(attention, attribute) for attention in attentions] == getattr(there.model.config, kinds)
    with_cache = there.model.generate(torch.tensor([PROMPT]), max_new_tokens=8, do_sample=False, pad_token_id=0)
    assert with_cache[0, len(PROMPT) :].tolist() == drafted(fit(there.model)[0], "none", 8)[0]


@pytest.mark.parametrize("model_type", MIXED)
def test_sublayers_of_unlike_layers_cannot_be_moved_apart(model_type: str) -> None:
    planted = planted_skip(tiny_model(model_type, layers=4, **MIXED[model_type]), Sublayers(attn={1}, mlp={2}), 0.0)
    before = logits(planted.model)
    with pytest.raises(UsageError, match="move whole layers"):
        moved(planted, seed=5)
    assert torch.equal(logits(planted.model), before)


def test_moved_sublayers_still_have_a_best_plan() -> None:
    there = moved(FORMS["sublayers"](), seed=7)
    assert drafted(wide(there), there.spec(4))[1].acceptance_rate == 1


def test_a_leak_makes_idle_layers_do_a_little() -> None:
    still, leaking = FORMS["skip"](), FORMS["skip"](leak=0.02)
    gap = (logits(still.model) - logits(leaking.model)).abs().max()
    assert 0 < gap < logits(still.model).abs().max() / 2


def test_the_best_plan_is_written_as_a_drafter_reads_it() -> None:
    planted = FORMS["sublayers"]()
    network = wide(planted)
    drafter = make_drafter(planted.spec(4), network)
    assert isinstance(drafter, SkipDrafter)
    assert drafter.plan == planted.best
    assert planted.spec(4, head="32").endswith(",depth=4,head=32")
    assert FORMS["exit"]().spec(5) == "exit:layer=2,depth=5"
    assert FORMS["exit"]().best == LayerPlan.until(2)


def test_what_cannot_be_planted_is_refused() -> None:
    with pytest.raises(UsageError, match="use 1 to 5"):
        exit_form(SHAPE, exit_layer=6)
    with pytest.raises(UsageError, match="first and last stay busy, so use 1 to 4"):
        skip_form(SHAPE, attn=5)
    with pytest.raises(UsageError, match="leak=1"):
        skip_form(SHAPE, attn=2, leak=1.0)
    with pytest.raises(UsageError, match="not like Llama's"):
        grown_model(tiny_model("gpt2"), 2)
    with pytest.raises(UsageError, match="not like Llama's"):
        grown_model(tiny_model("gemma2"), 2)
    with pytest.raises(UsageError, match="kv_heads"):
        replace(SHAPE, kv_heads=3)
    with pytest.raises(UsageError, match="first and last"):
        hidden_places(2, 1, 0)
    assert Sublayers.whole([1]).attn == {1}
