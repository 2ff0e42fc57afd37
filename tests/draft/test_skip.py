"""SWIFT's draft: some sublayers less."""

import pytest
import torch
from decoding import SLOTS, alone, network

from skipstone.draft.skip import SkipDrafter
from skipstone.drafting import DraftState
from skipstone.engine import Engine
from skipstone.errors import PlanError, UsageError
from skipstone.plan import LayerPlan
from skipstone.request import Request
from skipstone.testing import check_drafter, tiny_network
from skipstone.tree import Draft, Topology

Options = SkipDrafter.Options


class Spy(SkipDrafter):
    """Keeps its drafts and the limits they were made under."""

    def __init__(self, options, net):
        super().__init__(options, net)
        self.seen: list[tuple[DraftState, Draft]] = []

    def propose(self, state):
        self.seen.append((state, super().propose(state)))
        return self.seen[-1][1]


def _spied(options: Options, request: Request, net=None) -> list[tuple[DraftState, Draft]]:
    spy = Spy(options, net or network())
    alone(net or network(), request, spy)
    return spy.seen


@pytest.mark.parametrize(
    ("options", "plan"),
    [
        (Options(), None),
        (Options(plan="uniform"), LayerPlan.skipping(6, [1, 3], [1, 3])),
        (Options(attn="1+3-5"), LayerPlan.skipping(6, attn=[1, 3, 4, 5])),
        (Options(mlp="0", attn="2"), LayerPlan.skipping(6, attn=[2], mlp=[0])),
        (Options(mlp="2-2+2"), LayerPlan.skipping(6, mlp=[2])),
    ],
)
def test_options_name_the_sublayers_to_skip_or_leave_it_to_a_search(options: Options, plan: LayerPlan | None):
    assert SkipDrafter(options, tiny_network(layers=6)).plan == plan


@pytest.mark.parametrize("text", ["a", "1+b", "+", "-3", "1,2", "1-2-3", "3-1", "1.5"])
def test_what_names_no_layers_is_refused(text: str):
    with pytest.raises(UsageError, match="does not name layers"):
        SkipDrafter(Options(attn=text), network())


@pytest.mark.parametrize("text", ["4", "0+9", "2-99999999999", "9" * 5000])
def test_layers_beyond_the_last_are_refused(text: str):
    with pytest.raises(PlanError, match=r"layers are 0\.\.3"):
        SkipDrafter(Options(mlp=text), network())


@pytest.mark.parametrize(
    "options", [{"depth": -1}, {"width": -1}, {"width": 10**400}, {"plan": "swift"}, {"plan": "uniform", "attn": "1"}]
)
def test_options_that_cannot_work_are_refused(options: dict[str, object]):
    with pytest.raises(UsageError, match="skip:"):
        Options(**options)


def test_a_model_of_two_layers_has_none_to_skip_between_them():
    with pytest.raises(PlanError, match="2 layers"):
        SkipDrafter(Options(plan="uniform"), tiny_network(layers=2))


def test_it_drafts_what_the_model_without_those_sublayers_says():
    net = network()
    prompt = [3, 9, 27, 17]
    _, draft = _spied(Options(attn="2", mlp="0+3", depth=4), Request(prompt, 9))[0]
    plan = LayerPlan.skipping(net.num_layers, [2], [0, 3])
    cache = net.new_cache(1, SLOTS)
    for tokens, by in ((prompt[:-1], LayerPlan.full(net.num_layers)), (draft.tokens[0, :4].tolist(), plan)):
        placement = cache.place(Topology.chain(len(tokens)), [0])
        hidden = net.run(torch.tensor([tokens]), placement, cache, by).hidden
        cache.commit([0], [range(len(tokens))])
    assert draft.tokens[0, 1:].tolist() == net.logits(hidden)[0].argmax(-1).tolist()


@pytest.mark.parametrize(("depth", "width"), [(1, 1), (3, 1), (3, 2), (1, 5)])
def test_it_drafts_a_comb_of_the_depth_and_width_asked_for(depth: int, width: int):
    _, draft = _spied(Options(plan="uniform", depth=depth, width=width), Request([1, 2], 30))[0]
    assert draft.topology == Topology.comb((width,) * depth)
    assert bool(draft.live.all())


def test_a_width_beyond_the_vocabulary_takes_all_of_it():
    net = tiny_network(vocab_size=3)
    _, draft = _spied(Options(plan="uniform", depth=2, width=9), Request([1, 2], 30), net)[0]
    assert draft.topology == Topology.comb((3, 3))


def test_a_row_that_needs_less_than_the_others_gets_fillers():
    net = network()
    spy = Spy(Options(plan="uniform", depth=4, width=2), net)
    engine = Engine(net, spy, rows=2, capacity=SLOTS)
    engine.admit(Request([1, 2], 2))
    engine.admit(Request([1, 2], 20))
    engine.step()
    _, draft = spy.seen[0]
    assert draft.live.sum(-1).tolist() == [1 + 2, 1 + 8]


@pytest.mark.parametrize(
    "options", [Options(), Options(attn="0-3", depth=7), Options(plan="uniform", depth=20, width=3)]
)
def test_it_keeps_the_contract(options: Options):
    check_drafter(lambda net: SkipDrafter(options, net))
