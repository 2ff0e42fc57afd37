"""The paper's SWIFT, constant by constant."""

import sys

import pytest
from decoding import SLOTS, Visit, alone, decode, network

from skipstone.accept import Follow, Pick, Rejection
from skipstone.bench.planted import Shape, skip_form
from skipstone.draft.bands import Bands
from skipstone.draft.swift import SwiftDrafter
from skipstone.engine import Engine
from skipstone.errors import UsageError
from skipstone.hf.fit import fit
from skipstone.request import Request
from skipstone.search.paper import PaperOptions
from skipstone.search.sublayer import skipped_by
from skipstone.testing import check_drafter, tiny_network
from skipstone.tree import Draft, Topology

Options = SwiftDrafter.Options


class Spy(SwiftDrafter):
    """Keeps its drafts."""

    def __init__(self, options, net):
        super().__init__(options, net)
        self.drafts: list[Draft] = []

    def propose(self, state):
        self.drafts.append(super().propose(state))
        return self.drafts[-1]


class Watching(Follow):
    """Keeps all picks, as they are made."""

    def __init__(self) -> None:
        self.picks: list[Pick] = []

    def pick(self, scores, sampler, depth, width):
        self.picks.append(super().pick(scores, sampler, depth, width))
        return self.picks[-1]


@pytest.mark.parametrize(
    "options",
    [
        Options(beta=2, gamma=4, candidates=6),
        Options(beta=0, gamma=3, r=0.9, epsilon=0.0, depth=4, bands="4+2", edges="0.3"),
    ],
)
def test_it_keeps_the_contract(options: Options):
    check_drafter(lambda net: SwiftDrafter(options, net))


def test_it_finds_sublayers_that_idle_and_drafts_without_them_from_then_on():
    shape = Shape(layers=8, hidden=32, mlp=48, heads=4, kv_heads=2, vocab_size=64, context=256)
    planted = skip_form(shape, attn=4, mlp=4)
    net = fit(planted.model.double())[0]
    drafter = SwiftDrafter(Options(r=0.2, beta=0, gamma=24, depth=4, bands="off"), net)
    engine = Engine(net, drafter, capacity=256)
    decode(engine, [Visit(Request([1, 2, 3], 150))])
    assert not drafter.tuner.searching
    assert len(skipped_by(drafter.tuner.plan)) == 2
    assert skipped_by(drafter.tuner.plan) <= skipped_by(planted.best)


def test_what_it_found_lives_on_in_the_next_drafter():
    net = network()
    options = Options(beta=0, gamma=4, candidates=3)
    first, second = SwiftDrafter(options, net), SwiftDrafter(options, net)
    alone(net, Request([1, 2], 30), first)
    assert not first.tuner.searching
    second.recall(first.memory)
    found = len(first.tuner.events)
    alone(net, Request([5, 6], 30), second)
    assert second.tuner.plan == first.tuner.plan
    assert len(second.tuner.events) == found


def test_drafting_stops_at_the_first_token_that_is_less_sure_than_epsilon():
    net, request = network(), Request([1, 2], 30)
    never, at_once = (Spy(Options(beta=0, epsilon=epsilon, bands="off"), net) for epsilon in (0.0, 1.0))
    alone(net, request, never)
    alone(net, request, at_once)
    assert never.drafts[0].topology == Topology.chain(1 + 25)
    assert {len(draft.topology) for draft in at_once.drafts[:-1]} == {2}


@pytest.mark.parametrize("bands", ["off", "4+2"])
def test_rows_draft_together_what_each_would_draft_alone(bands: str):
    net = network()
    options = Options(beta=0, gamma=10**6, epsilon=0.3, depth=12, bands=bands, edges="" if bands == "off" else "0.5")
    prompts = ([1, 2], [9, 8, 7], [4, 4], [30, 2, 5, 11])

    def first_drafts(*together: list[int]) -> tuple[list[int], Draft]:
        spy = Spy(options, net)
        engine = Engine(net, spy, rows=len(together), capacity=200)
        for prompt in together:
            engine.admit(Request(prompt, 60))
        engine.step()
        draft = spy.drafts[0]
        return [row[list(draft.topology.backbone)].sum().item() - 1 for row in draft.live], draft

    alone_ = [first_drafts(prompt)[0][0] for prompt in prompts]
    depths, draft = first_drafts(*prompts)
    assert depths == alone_
    assert len(set(depths)) > 1
    assert draft.topology.depths.max() == max(depths)
    if bands == "off":
        assert len(draft.topology) == 1 + max(depths)


def test_each_row_keeps_as_many_choices_as_its_own_sureness_asks_for():
    net, rule = network(), Watching()
    spy = Spy(Options(beta=0, epsilon=0.0, depth=3), net)
    engine = Engine(net, spy, rows=2, capacity=120, rule=rule)
    for prompt in ([1, 2], [9, 8, 7]):
        engine.admit(Request(prompt, 60))
    for _ in range(6):
        rule.picks.clear()
        engine.step()
        draft = spy.drafts[-1]
        wanted = [[Bands()(rule.picks[2 * depth + row]) for depth in range(3)] for row in range(2)]
        assert draft.topology == Topology.comb(tuple(map(max, *wanted)))
        assert draft.live.sum(-1).tolist() == [1 + sum(widths) for widths in wanted]


def test_where_room_is_short_the_chain_goes_before_siblings_and_shallow_ones_before_deep_ones():
    net = network()
    spy = Spy(Options(beta=0, epsilon=0.0, depth=4, bands="3", edges=""), net)
    engine = Engine(net, spy, capacity=8)
    engine.admit(Request([1, 2], 6))
    engine.step()
    assert spy.drafts[0].topology == Topology.comb((3, 1, 1, 1))


@pytest.mark.parametrize("layers", [2, 3])
def test_a_model_too_shallow_to_skip_is_decoded_plainly_and_it_says_so(layers: int):
    net = tiny_network(layers=layers)
    spy = Spy(Options(), net)
    assert alone(net, Request([1, 2], 8), spy).tokens == alone(net, Request([1, 2], 8)).tokens
    assert {len(draft.topology) for draft in spy.drafts} == {1}
    assert len(spy.notes) == 1
    assert f"of {layers} layers" in spy.notes[0]


def test_it_says_at_the_start_that_it_is_slow_while_it_searches():
    (note,) = SwiftDrafter(Options(beta=0), network()).notes
    assert note.startswith("swift: tries a candidate at every step, which is slow until its search ends")


def test_without_the_library_it_is_told_at_once_unless_random_candidates_are_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "bayes_opt", None)
    with pytest.raises(UsageError, match=r"skipstone\[search\]"):
        SwiftDrafter(Options(), network())
    SwiftDrafter(Options(beta=0), network())


def test_every_constant_of_the_search_is_an_option():
    given = {"r": 0.3, "gamma": 16, "beta": 5, "kappa": 1.5, "alpha": 0.1, "candidates": 7, "patience": 6}
    search = Options(**given, tolerance=0.8, seed=9).search()
    assert search == PaperOptions(0.3, 16, 5, candidates=7, patience=6, tolerance=0.8, seed=9, kappa=1.5, alpha=0.1)


def test_under_the_rejection_rule_it_drafts_chains_or_says_how_to():
    net = network()
    for bands, works in (("off", True), ("10+5+3+1", False)):
        engine = Engine(net, SwiftDrafter(Options(beta=0, bands=bands), net), capacity=SLOTS, rule=Rejection())
        engine.admit(Request([1, 2], 5))
        if works:
            engine.step()
        else:
            with pytest.raises(UsageError, match="bands=off"):
                engine.step()


@pytest.mark.parametrize(
    "options",
    [
        {"r": 0.95},
        {"r": -0.1},
        {"gamma": 0},
        {"beta": -1},
        {"candidates": 0},
        {"patience": 0},
        {"tolerance": 2.0},
        {"epsilon": -0.1},
        {"epsilon": float("nan")},
        {"depth": 0},
        {"bands": "wide"},
        {"edges": "0.9"},
        {"head": "none"},
        {"kappa": -1.0},
        {"alpha": 0.0},
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, object]):
    with pytest.raises(UsageError, match="swift:"):
        Options(**options)
