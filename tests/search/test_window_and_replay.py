"""Verified tokens, run once more under another plan."""

from collections.abc import Callable

import pytest
import torch
from decoding import SLOTS, network

from skipstone.draft.none import NoDrafter
from skipstone.draft.skip import SkipDrafter
from skipstone.drafting import DraftState
from skipstone.engine import Engine
from skipstone.kernels.cuda_graphs import GraphedNetwork
from skipstone.kernels.graph_table import GraphOptions
from skipstone.kernels.recorder import Rerun
from skipstone.plan import LayerPlan
from skipstone.request import Request
from skipstone.sampling import SamplingParams
from skipstone.search.disturbance import disturbances
from skipstone.search.replay import replay
from skipstone.search.sublayer import Sublayer
from skipstone.search.window import Window
from skipstone.testing import tiny_network

PROMPT, TOKENS = [5, 9, 2, 11], 24
SAMPLINGS = [SamplingParams(), SamplingParams(temperature=0.8, seed=3)]


class Looks(NoDrafter):
    """Decodes plainly, and looks at the state before every step."""

    def __init__(self, look: Callable[[DraftState], None]) -> None:
        super().__init__(NoDrafter.Options(), network())
        self.look = look

    def propose(self, state):
        self.look(state)
        return super().propose(state)


def _text(look: Callable[[DraftState], None], sampling: SamplingParams = SAMPLINGS[0], net=None) -> list[int]:
    engine = Engine(net or network(), Looks(look), capacity=SLOTS)
    [row] = engine.admit(Request(PROMPT, max_new_tokens=TOKENS, sampling=sampling))
    said: list[int] = []
    while engine.busy:
        said += [token for emission in engine.step() for token in emission.tokens]
    engine.release(row)
    return said


def test_a_window_holds_what_the_target_said_last_and_nothing_of_the_prompt():
    seen: list[Window] = []
    said = _text(lambda state: seen.append(Window.newest(state, 6)))
    assert [len(window) for window in seen[:4]] == [0, 1, 2, 3]
    last = seen[-1]
    assert list(last.wanted) == said[TOKENS - 7 : TOKENS - 1]
    assert list(last.inputs) == said[TOKENS - 8 : TOKENS - 2]
    assert list(last.positions) == list(range(len(PROMPT) + TOKENS - 8, len(PROMPT) + TOKENS - 2))


def test_a_window_begins_no_earlier_than_it_may():
    seen: list[Window] = []
    _text(lambda state: seen.append(Window.newest(state, 6, {state.rows[0]: len(PROMPT) + 20})))
    assert [len(window) for window in seen[-3:]] == [1, 2, 3]


def test_a_window_takes_no_more_slots_than_there_are():
    def look(state: DraftState) -> None:
        assert len(Window.newest(state, 10_000)) <= state.limits.nodes

    _text(look)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_whole_model_says_again_what_it_said(sampling: SamplingParams):
    shares: list[bool] = []

    def look(state: DraftState) -> None:
        window = Window.newest(state, 16)
        if len(window):
            shares.append(replay(state, window, LayerPlan.full(state.network.num_layers)) == len(window))

    _text(look, sampling)
    assert len(shares) == TOKENS - 1
    assert all(shares)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_replay_counts_what_drafts_of_one_token_would_have_had_accepted(sampling: SamplingParams):
    plan = LayerPlan.uniform(network().num_layers)
    drafter = SkipDrafter(SkipDrafter.Options(plan="uniform", depth=1, head="full"), network())
    right: dict[int, bool] = {}  # by the position that was drafted
    counted: list[tuple[range, int]] = []

    def look(state: DraftState) -> None:
        draft = drafter.propose(state)
        if len(draft.topology) > 1:
            right[len(state.history[0])] = int(draft.tokens[0, 1])
        window = Window.newest(state, 8)
        if len(window) == 8:
            counted.append((window.positions, replay(state, window, plan)))

    said = _text(look, sampling)
    assert counted
    assert any(hits > 0 for _, hits in counted)
    for positions, hits in counted:
        wanted = [(p + 1, said[p + 1 - len(PROMPT)]) for p in positions if p + 1 in right]
        assert hits - sum(right[p] == token for p, token in wanted) in range(8 - len(wanted) + 1)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_replays_change_nothing_of_the_text(sampling: SamplingParams):
    def look(state: DraftState) -> None:
        window = Window.newest(state, 8)
        if len(window):
            replay(state, window, LayerPlan.uniform(state.network.num_layers))
            disturbances(state, window, LayerPlan.full(state.network.num_layers))

    assert _text(look, sampling) == _text(lambda state: None, sampling)


class Counting(Rerun):
    """Counts what is recorded."""

    recorded = 0

    def record(self, function):
        self.recorded += 1
        return super().record(function)


def test_what_is_tried_is_never_recorded_as_a_graph():
    """However often the same plan, or the same layer alone, comes by: graphs are for what is generated with."""
    recorders = [Counting(), Counting()]

    def look(state: DraftState) -> None:
        window = Window.newest(state, 8)
        if len(window) == 8:
            replay(state, window, LayerPlan.uniform(state.network.num_layers))
            disturbances(state, window, LayerPlan.full(state.network.num_layers))

    nets = [GraphedNetwork(network(), recorder, GraphOptions(after=2, smallest=8)) for recorder in recorders]
    assert _text(look, net=nets[0]) == _text(lambda state: None, net=nets[1])
    assert recorders[0].recorded == recorders[1].recorded > 0


def test_a_sublayer_that_does_nothing_disturbs_nothing():
    net = tiny_network(layers=5)
    for layer, name in ((2, "self_attn.o_proj"), (3, "mlp.down_proj")):
        torch.nn.init.zeros_(net.model.model.layers[layer].get_submodule(name).weight)
    found: list[dict[Sublayer, float]] = []

    def look(state: DraftState) -> None:
        window = Window.newest(state, 8)
        if len(window) == 8:
            found.append(disturbances(state, window, LayerPlan.full(net.num_layers)))

    _text(look, net=net)
    idle = {Sublayer(2, "attn"), Sublayer(3, "mlp")}
    for each in found:
        assert {part for part, turn in each.items() if turn < 1e-6} == idle
        assert {part.layer for part in each} == set(range(1, net.num_layers - 1))
