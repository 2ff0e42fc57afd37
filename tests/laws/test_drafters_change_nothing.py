"""The law of laws: with one seed, every drafter, tree, batch and schedule gives the text of plain decoding."""

from dataclasses import replace

import pytest
from decoding import SLOTS, RandomDrafter, Visit, alone, decode, network, plain
from drawing import Scene, built_in, prompts, requests, samplings, scenes
from hypothesis import given, settings
from hypothesis import strategies as st

from skipstone.draft.exit import ExitDrafter
from skipstone.draft.skip import SkipDrafter
from skipstone.engine import Engine
from skipstone.request import Request
from skipstone.sampling import SamplingParams
from skipstone.telemetry import Summary


@settings(max_examples=80)
@given(scenes())
def test_the_output_does_not_depend_on_the_drafter(scene: Scene):
    for text, expected in zip(decode(scene.engine, scene.visits), scene.plain, strict=True):
        assert text.error is None
        assert text.tokens == expected[: max(len(text.tokens), text.visit.leave_at)]


@given(scenes(request=st.builds(Request, prompts, st.integers(1, 9), samplings, logprobs=st.integers(0, 3))))
def test_logprobs_do_not_depend_on_the_drafter(scene: Scene):
    net = scene.engine.network
    singles = [request for visit in scene.visits for request in visit.requests]
    for text, request in zip(decode(scene.engine, scene.visits), singles, strict=True):
        assert [entry.token for entry in text.logprobs] == text.tokens
        for got, want in zip(text.logprobs, alone(net, request).logprobs, strict=False):
            assert got.token == want.token
            assert got.logprob == pytest.approx(want.logprob, abs=1e-9)
            assert [token for token, _ in got.top] == [token for token, _ in want.top]
            assert [value for _, value in got.top] == pytest.approx([value for _, value in want.top], abs=1e-9)


@given(requests, st.data())
def test_a_text_taken_up_again_goes_on_as_if_never_left(request: Request, data: st.DataObject):
    net = network(data.draw(st.sampled_from(["llama", "windowed", "dynamic", "longrope"])))
    whole = alone(net, request).tokens
    left = data.draw(st.integers(0, len(whole) - 1))
    again = alone(net, replace(request, generated=whole[:left]), data.draw(built_in(net)))
    assert whole[:left] + again.tokens == whole


@given(requests, st.integers(0, 99))
def test_a_shorter_budget_gives_a_prefix(request: Request, seed: int):
    net = network()
    whole = alone(net, replace(request, max_new_tokens=14)).tokens
    part = alone(net, request, RandomDrafter(net, seed, lambda _: whole))
    assert part.tokens == whole[: request.max_new_tokens]


def test_samples_of_one_prompt_share_a_prefill_and_differ():
    net = network()
    request = Request([5, 9, 5, 9, 2], 12, SamplingParams(temperature=1.0, seed=3))
    nodes: list[int] = []
    count = lambda module, args, kwargs: nodes.append(args[0].shape[1])  # noqa: E731
    with net.layers[0].self_attn.register_forward_pre_hook(count, with_kwargs=True):
        texts = decode(Engine(net, plain(net), rows=3, capacity=SLOTS), [Visit(request, samples=3)])
    assert len({tuple(text.tokens) for text in texts}) == 3
    assert nodes == [4] + [1] * 12


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_drafts_of_an_agreeing_network_are_accepted_at_any_temperature(temperature: float):
    """Otherwise all laws above would hold for drafters that never guess right."""
    net = network()
    uniform = SkipDrafter(SkipDrafter.Options(plan="uniform", width=2), net)
    for drafter in (uniform, ExitDrafter(ExitDrafter.Options(layer=2), net)):
        summary = Summary()
        engine = Engine(net, drafter, capacity=90, sinks=[summary])
        decode(engine, [Visit(Request([1, 2, 3], 60, SamplingParams(temperature=temperature)))])
        assert summary.mean_accepted_length > 2


class Flaky(RandomDrafter):
    """Fails every other time, after having spoilt the scratch."""

    def propose(self, state):
        draft = super().propose(state)
        self.count = getattr(self, "count", 0) + 1
        if self.count % 2:
            raise RuntimeError("no idea")
        return draft


def test_a_drafter_that_fails_leaves_the_engine_able_to_go_on():
    net = network()
    asked = [Request([7, 8, 9] * n, 10, SamplingParams(temperature=0.9, seed=n)) for n in (1, 2)]
    engine = Engine(net, plain(net), rows=2, capacity=SLOTS)
    rows = [engine.admit(asked[0])[0], engine.admit(asked[1], drafter=Flaky(net, 0, lambda r: alone(net, r).tokens))[0]]
    texts: dict[int, list[int]] = {row: [] for row in rows}
    failures = 0
    while engine.busy:
        try:
            emissions = engine.step()
        except RuntimeError:
            failures += 1
            continue
        for emission in emissions:
            texts[emission.row] += emission.tokens
    assert failures > 1
    assert [texts[row] for row in rows] == [alone(net, request).tokens for request in asked]


class Refusing(RandomDrafter):
    def admit(self, row, request):
        if row == 1:
            raise RuntimeError("no more")
        super().admit(row, request)


def test_a_drafter_that_refuses_a_sample_leaves_no_row_behind():
    net = network()
    drafter = Refusing(net, 0)
    engine = Engine(net, drafter, rows=3, capacity=SLOTS)
    with pytest.raises(RuntimeError, match="no more"):
        engine.admit(Request([1], 9), samples=3)
    assert engine.free_rows == [0, 1, 2]
    assert drafter.plain == {}
