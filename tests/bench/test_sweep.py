"""A sweep finds the exit that is known to be best, and what it predicts is what decoding does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from clocked import ClockedNetwork
from costly import flat, line
from decoding import network, plain
from hypothesis import given
from hypothesis import strategies as st

from skipstone.bench.efficiency.decoding import Job
from skipstone.bench.planted import Shape, exit_form
from skipstone.bench.sweep.agreement import places
from skipstone.bench.sweep.prediction import Prices
from skipstone.bench.sweep.result import Swept
from skipstone.bench.sweep.setting import Asked, Grid, Setting
from skipstone.bench.sweep.sweep import Extent, Sweep
from skipstone.bench.sweep.texts import Text
from skipstone.bench.sweep.walk import Walk
from skipstone.bench.timing import Estimate
from skipstone.cost import CostModel, CostTable
from skipstone.curve import Curve, Surface
from skipstone.drafting import Drafter
from skipstone.engine import Engine
from skipstone.errors import PlanError, RequestError, SkipstoneError, UsageError
from skipstone.hf.fit import fit
from skipstone.hf.load import LoadedModel
from skipstone.network import Network
from skipstone.plugins import make_drafter
from skipstone.sampling import SamplingParams
from skipstone.stopping import StopTokens
from skipstone.telemetry import Summary
from skipstone.text.language_model import LanguageModel

PROMPT = (5, 9, 2, 40, 9)
TOKENS = 44
PROMPTS = [[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8, 2, 8]]


# the law: what one pass predicts is what drafting does


def decoded(net: Network, job: Job, drafter: Drafter) -> tuple[list[int], Summary]:
    summary = Summary()
    engine = Engine(net, drafter, capacity=len(job.prompt) + job.new_tokens + 64, sinks=[summary])
    engine.admit(job.request)
    out: list[int] = []
    while engine.busy:
        out += [token for emission in engine.step() for token in emission.tokens]
    return out, summary


def text_of(net: Network, job: Job) -> Text:
    return Text(job, tuple(decoded(net, job, plain(net))[0]), min(job.new_tokens, net.context - len(job.prompt)))


def walked(net: Network, text: Text, setting: Setting) -> Walk:
    grid = Grid((setting.exit,), (setting.depth,), (setting.width,), (setting.head,))
    walk = Walk()
    walk.go(places(net, text, grid)[setting.exit, setting.head], text.budget, setting.depth, setting.width)
    return walk


def assert_predicted(net: Network, text: Text, setting: Setting) -> Summary:
    """The walk along the text is the one that drafting takes."""
    out, summary = decoded(net, text.job, make_drafter(setting.spec, net))
    assert tuple(out) == text.output
    walk = walked(net, text, setting)
    assert walk.tokens == summary.emitted == len(out)
    assert walk.cycles.total() == summary.steps
    assert walk.tokens_per_cycle == summary.mean_accepted_length
    return summary


SAMPLED = SamplingParams(temperature=0.9, top_k=40, top_p=0.95, repetition_penalty=1.2, presence_penalty=0.3, seed=7)


@pytest.mark.parametrize("sampling", [SamplingParams(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", ["llama", "windowed", "dynamic", "fused"])
def test_tokens_predicted_are_those_decoded(name: str, sampling: SamplingParams) -> None:
    net = network(name)
    text = text_of(net, Job(PROMPT, TOKENS, sampling))
    met = [
        assert_predicted(net, text, Setting(exit_layer, depth, width, head))
        for exit_layer in range(1, net.num_layers)
        for depth, width, head in ((1, 1, "full"), (4, 1, "full"), (3, 3, "full"), (4, 2, "20"))
    ]
    assert any(0 < summary.accepted < summary.drafted for summary in met)
    assert any(summary.rescued for summary in met)


@given(
    st.lists(st.integers(0, 63), min_size=1, max_size=9),
    st.builds(Setting, st.integers(1, 3), st.integers(1, 9), st.integers(1, 4), st.sampled_from(["full", "9", "40"])),
    st.sampled_from([0.0, 0.7, 1.3]),
    st.integers(1, 40),
)
def test_whatever_the_text_and_setting_the_cycles_are_the_same(
    prompt: list[int], setting: Setting, temperature: float, tokens: int
) -> None:
    net = network()
    job = Job(prompt, tokens, SamplingParams(temperature=temperature, seed=tokens))
    assert_predicted(net, text_of(net, job), setting)


def test_a_text_that_ends_itself_is_walked_as_it_is_decoded() -> None:
    net = network()
    whole = text_of(net, Job(PROMPT, TOKENS))
    for place in range(1, TOKENS):
        stops = [StopTokens(frozenset([whole.output[place]]))]
        text = text_of(net, Job(PROMPT, TOKENS, stops=stops))
        if len(text.output) < TOKENS:
            assert_predicted(net, text, Setting(3, 5, 2))


def test_acceptance_by_depth_is_that_of_decoding() -> None:
    net = network()
    text = text_of(net, Job(PROMPT, TOKENS))
    _, summary = decoded(net, text.job, make_drafter("exit:layer=3,depth=4,head=full", net))
    walk = walked(net, text, Setting(3, 4))
    assert walk.accepted == summary.accepted_at
    assert walk.tried[1] == summary.drafted_at[1]


def test_a_walk_counts_what_is_drafted_and_what_is_right() -> None:
    walk = Walk()
    walk.go((0, 0, 1, 0, 2, 0, 0), budget=7, depth=3, width=2)
    # three drafted, two right, a sibling rescues the third, bonus (4 tokens); then one wrong, a bonus: its place is 2
    assert walk.cycles == {3: 1, 2: 1, 1: 1}
    assert walk.accepted == {1: 2, 2: 1}
    assert walk.acceptance_by_depth == [2 / 3, 1, 0]
    assert walk.tokens == 7


# what a cycle costs


@pytest.mark.parametrize("setting", [Setting(1, 3), Setting(3, 5), Setting(2, 3, 3)])
def test_a_cycle_is_priced_by_the_runs_it_makes(setting: Setting) -> None:
    net = ClockedNetwork(network(), costs(layers=4, vocab=64))
    prices = Prices(CostModel(net.table), 4, 0)
    engine = Engine(net, make_drafter(setting.spec, net), capacity=99)
    engine.admit(Job(PROMPT[:1], 20).request)  # a prompt of one token needs no prefill
    engine.step()
    assert 1e3 * net.now == pytest.approx(prices.cycle(setting, setting.depth))
    assert prices.cycle(setting, 0) == prices.plain


def test_a_part_of_the_head_is_priced_as_such() -> None:
    table = replace(costs(layers=4, vocab=64), head=Surface((20, 64), (Curve((1,), (1.0,)), Curve((1,), (5.0,)))))
    prices = Prices(CostModel(table), 4, 0)
    assert prices.cycle(Setting(2, 3), 3) - prices.cycle(Setting(2, 3, 1, "20"), 3) == pytest.approx(3 * (5 - 1))


# a whole sweep


def costs(layers: int, vocab: int, layer_ms: float = 1.0) -> CostTable:
    """Layers cost nearly everything; many nodes little more than one."""
    sublayer = line(layer_ms, 1.3 * layer_ms)
    return CostTable(layers, vocab, flat(0.05), sublayer, flat(0.0), 0.0, sublayer, flat(0.4))


def planted_model(exit_layer: int = 2, layers: int = 6, leak: float = 0.0, layer_ms: float = 1.0) -> LanguageModel:
    shape = Shape(layers=layers, hidden=32, mlp=48, heads=4, kv_heads=2, vocab_size=270, context=256)
    net = fit(exit_form(shape, exit_layer=exit_layer, leak=leak).model.double())[0]
    tokenizer: Any = SimpleNamespace(eos_id=None)
    table = costs(layers, net.vocab_size, layer_ms)
    clocked = ClockedNetwork(net, table)
    return LanguageModel(LoadedModel("planted", net, tokenizer, {}, 0.0), "none", lambda: table, clocked)


def swept(model: LanguageModel, asked: Asked | None = None, extent: Extent | None = None) -> Swept:
    clock = model.network.clock  # type: ignore[attr-defined]
    return Sweep(model, asked or Asked(), extent or Extent(tokens=24), clock).run(PROMPTS)


@pytest.mark.parametrize("exit_layer", [1, 2, 4])
def test_the_first_layer_after_which_nothing_happens_is_found(exit_layer: int) -> None:
    found = swept(planted_model(exit_layer))
    assert found.best is not None
    assert found.best.setting.exit == exit_layer
    assert found.best.setting.width == 1  # siblings rescue nothing
    preset = found.preset
    assert preset is not None
    assert (preset.layer, preset.depth, preset.agreement, preset.tokens) == (
        exit_layer,
        found.best.setting.depth,
        1.0,
        48,
    )
    assert preset.speed == found.best.speed.value > 1.3


def test_what_is_predicted_is_what_is_measured() -> None:
    found = swept(planted_model(3, leak=0.3), extent=Extent(32, best=3))
    assert len(found.measured) == 3
    for each in found.measured:
        assert found.prediction(each.setting).speed == pytest.approx(each.speed.value, rel=0.1)
        assert (each.differences, each.near_ties) == (0, 0)


def test_predictions_rank_as_a_measurement_of_everything_does() -> None:
    model = planted_model(3, leak=0.02)
    asked = Asked(exits=(1, 3), depths=(1, 4), widths=(1,))
    whole = swept(model, asked, Extent(16, full=True))
    assert len(whole.measured) == len(whole.grid.settings) == 4
    few = swept(model, asked, Extent(16))
    assert len(few.measured) == 1  # a tenth at most
    best = max(each.speed.value for each in whole.measured)
    assert few.measured[0].speed.value > 0.97 * best


def test_where_no_exit_agrees_nothing_is_measured_or_kept_and_it_is_said_why() -> None:
    found = swept(planted_model(5), Asked(exits=(2, 3), widths=(1,)))
    assert found.measured == ()
    assert (found.best, found.preset) == (None, None)
    exit_layer = found.predictions[0].setting.exit
    assert found.verdict.startswith(f"agreement at exit {exit_layer} is ")
    assert found.verdict.endswith(" %: train it (skipstone train), or use skip or ngram")


def test_where_layers_cost_nothing_no_setting_is_kept() -> None:
    found = swept(planted_model(2, layer_ms=1e-6), Asked(depths=(2, 5)), Extent(16, full=True))
    assert found.preset is None
    assert found.verdict.startswith("nothing pays here: exit ")
    assert found.verdict.endswith("is 100 %: use skip or ngram")  # to train it would not help
    unmeasured = replace(found, measured=())
    assert " is predicted to come to " in unmeasured.verdict


def test_a_setting_whose_texts_differ_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    model = planted_model(1)
    asked = Asked(exits=(1,), depths=(4,), widths=(1,))
    sweep = Sweep(model, asked, Extent(24), clock=model.network.clock)  # type: ignore[attr-defined]
    monkeypatch.setattr(
        "skipstone.bench.sweep.sweep.generated",
        lambda model, job, clock: Text(job, (7,) * 24, 24),  # not what is decoded
    )
    monkeypatch.setattr("skipstone.bench.sweep.sweep.places", lambda net, text, grid: everything(grid))
    for near, says in ((False, "skipstone check"), (True, "× plain decoding")):
        monkeypatch.setattr("skipstone.bench.sweep.measurement.only_near_ties", lambda *_, near=near: near)
        found = sweep.run(PROMPTS)
        assert says in found.verdict
        assert (found.preset is None) is not near


def test_as_many_settings_are_measured_as_are_asked_for_whatever_they_promise() -> None:
    model, asked = planted_model(2, layer_ms=1e-6), Asked(exits=(2,), depths=(2, 5), widths=(1,))
    assert len(swept(model, asked, Extent(16)).measured) == 1
    assert len(swept(model, asked, Extent(16, best=2)).measured) == 2


@pytest.mark.parametrize(("low", "doubt"), [(1.02, False), (0.97, True)])
def test_a_best_setting_that_may_be_no_faster_is_said_to_be_so(low: float, doubt: bool) -> None:
    found = swept(planted_model(2), Asked(exits=(2,), depths=(4,)))
    best = replace(found.measured[0], speed=Estimate(1.1, low, 1.2, 5))
    assert ("more prompts" in replace(found, measured=(best,)).verdict) is doubt


def everything(grid: Grid) -> dict[tuple[int, str], tuple[int, ...]]:
    """Every exit is right everywhere."""
    return {(layer, head): (0,) * 24 for layer in grid.exits for head in grid.heads}


def test_the_result_is_json_with_every_setting() -> None:
    found = swept(planted_model(2), Asked(exits=(1, 2), depths=(2, 4)))
    told = json.loads(json.dumps(found.to_json()))
    assert (told["texts"], told["tokens"], told["differences"]) == (2, 48, 0)
    assert [entry["exit"] for entry in told["exits"]] == [1, 2]
    assert told["exits"][1]["agreement"] == 1.0
    assert told["exits"][1]["acceptance_by_depth"] == [1.0] * 4
    assert len(told["settings"]) == 8
    assert told["settings"][0]["measured"] is not None
    assert told["verdict"] == found.verdict
    assert found.cells.keys() == {(1, 2), (1, 4), (2, 2), (2, 4)}


def test_progress_tells_of_every_text_and_round() -> None:
    model = planted_model(2)
    said: list[tuple[str, int, int]] = []
    tell = lambda *news: said.append(news)  # noqa: E731
    Sweep(model, Asked(depths=(4,)), Extent(20), model.network.clock, tell).run(PROMPTS)  # type: ignore[attr-defined]
    assert [news for news in said if news[0] == "texts"] == [("texts", done, 2) for done in range(3)]
    assert said[-1] == ("rounds of 1 settings", 5, 5)


# what is swept


def test_trained_exits_are_swept_else_some_of_all() -> None:
    model = planted_model(2)
    assert Grid.of(model, Asked()).exits == tuple(range(1, 6))
    trained = LanguageModel(replace(model.loaded, exits=(3, 6)))
    assert Grid.of(trained, Asked()).exits == (3,)
    assert Grid.of(trained, Asked(exits=(5, 2, 5))).exits == (2, 5)
    deep = Grid.of(planted_model(2, layers=40), Asked()).exits
    assert len(deep) == 16
    assert (deep[0], deep[-1]) == (2, 39)


def test_heads_are_swept_where_a_part_of_the_vocabulary_is_one() -> None:
    model = planted_model(2)
    assert Grid.of(model, Asked()).heads == ("full",)  # few words: nothing to save
    assert Grid.of(model, Asked(head="100")).heads == ("100",)
    assert Grid.of(model, Asked(head="300")).heads == ("full",)


def test_settings_beyond_the_room_of_a_draft_are_left_out() -> None:
    model = planted_model(2)
    assert max(1 + each.depth * each.width for each in Grid.of(model, Asked(depths=(9, 40))).settings) == 41
    with pytest.raises(UsageError, match="room for 63 tokens"):
        Grid.of(model, Asked(depths=(64,)))


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda: Grid.of(planted_model(2), Asked(exits=(6,))), PlanError, r"exit 6 .* has 6 layers, use 1 to 5"),
        (lambda: Grid.of(planted_model(2), Asked(exits=(0,))), PlanError, "exit 0 "),
        (lambda: Asked(depths=(0,)), UsageError, "depths 0"),
        (lambda: Asked(widths=(-1,)), UsageError, "widths -1"),
        (lambda: Asked(head="some"), UsageError, "sweep: head='some'"),
        (lambda: Extent(tokens=15), RequestError, "15 tokens"),
        (lambda: Extent(best=0), UsageError, "best 0"),
    ],
)
def test_what_cannot_be_swept_is_refused(ask: Any, error: type[SkipstoneError], says: str) -> None:
    with pytest.raises(error, match=says):
        ask()


def test_texts_that_end_at_once_are_refused() -> None:
    model = planted_model(2)
    every: Sequence[int] = range(270)
    model.defaults = {"eos_token_id": list(every)}
    with pytest.raises(UsageError, match="ended within 15 tokens"):
        swept(model)
