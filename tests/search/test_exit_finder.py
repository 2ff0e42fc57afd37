"""Finding out which exit to draft with."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from skipstone.bench.planted.random import Shape, exit_form, random_llama
from skipstone.cost import Step
from skipstone.draft.exit import ExitDrafter
from skipstone.engine import Engine
from skipstone.errors import UsageError
from skipstone.hf.prepare import prepare
from skipstone.network import Network
from skipstone.request import Request
from skipstone.sampling import SamplingParams
from skipstone.search.exit_finder import ExitOptions
from skipstone.search.exit_prices import At, ExitPrices, Heads, forecast
from skipstone.search.exit_sample import ExitSample
from skipstone.search.exit_sights import ExitSights
from skipstone.search.pricing import Uniform
from skipstone.telemetry import Summary
from skipstone.testing import tiny_network

SHAPE = Shape(layers=12, hidden=48, mlp=96, heads=4, kv_heads=2, vocab_size=128, context=256)


def planted(exit_layer: int, layers: int = 12) -> Network:
    return prepare(exit_form(replace(SHAPE, layers=layers), exit_layer=exit_layer, seed=exit_layer).model).network


def decoded(net: Network, drafter: ExitDrafter, prompt: list[int], tokens: int = 60) -> Summary:
    summary = Summary()
    engine = Engine(net, drafter, capacity=len(prompt) + tokens + 40, sinks=[summary])
    engine.admit(Request(prompt, tokens))
    while engine.busy:
        engine.step()
    return summary


def tuned(net: Network, **options: object) -> ExitDrafter:
    return ExitDrafter(ExitDrafter.Options(**options), net)


@pytest.mark.parametrize("exit_layer", [2, 5, 9])
@pytest.mark.parametrize("prompt", [[3, 5, 7], list(range(3, 40))], ids=["short prompt", "prompt"])
def test_the_exit_from_which_all_layers_idle_is_found_within_20_tokens(exit_layer: int, prompt: list[int]):
    drafter = tuned(net := planted(exit_layer))
    summary = decoded(net, drafter, prompt)
    taken = drafter.dynamic.finder.history[-1]
    assert taken.exit == exit_layer
    assert taken.tokens <= 20
    assert summary.acceptance_rate > 0.75
    assert summary.mean_accepted_length > 1.5


def test_of_many_exits_a_few_are_looked_at():
    drafter = tuned(net := planted(11, layers=40))
    decoded(net, drafter, list(range(3, 40)))
    finder = drafter.dynamic.finder
    assert finder.exit == 11
    assert len(finder.sights) <= 13


def test_an_exit_that_does_not_agree_is_not_drafted_with_and_the_reason_is_told():
    drafter = tuned(net := prepare(random_llama(SHAPE)).network)
    drafter.trained_for([2])
    assert "too little text" in drafter.memory.told()
    drafter.dynamic.finder.sights[2] = seen({0.9: 0.0})
    assert decoded(net, drafter, [3, 5, 7], 20).drafted == 0
    assert drafter.memory.told() == "not drafting: agreement at exit 2 is 1%, too little to pay here"
    drafter.dynamic.finder.trained = False
    assert drafter.memory.told() == "not drafting: agreement at exit 2 is 1%: train it, or use skip or ngram"


def test_exits_that_the_model_was_trained_for_are_tried_at_once_and_no_others():
    drafter = tuned(net := planted(3))
    drafter.trained_for([5, 3, 99])
    assert drafter.dynamic.finder.exits == (3, 5)
    decoded(net, drafter, [3, 5])
    assert drafter.dynamic.finder.exit == 3


def test_a_model_of_one_layer_is_decoded_plainly():
    drafter = tuned(net := tiny_network(layers=1))
    assert decoded(net, drafter, [3, 5], 5).drafted == 0
    assert "none to exit from" in drafter.memory.told()


def test_what_was_found_is_handed_on_to_the_next_drafter():
    first = tuned(net := planted(4))
    decoded(net, first, [3, 5, 7])
    second = tuned(net)
    second.recall(first.memory)
    before = second.dynamic.finder.tokens
    decoded(net, second, [9, 8])
    assert len(second.dynamic.finder.history) == 1
    assert second.dynamic.finder.tokens == before + 60


def test_when_the_redundant_depth_moves_taps_show_it():
    """Two texts with one memory, over networks whose best exits differ: the second is found without a new survey."""
    first = tuned(planted(2), budget=0.5)
    decoded(first.head.network, first, [3, 5, 7])
    assert first.dynamic.finder.exit == 2
    second = tuned(planted(5), budget=0.5)
    second.recall(first.memory)
    decoded(second.head.network, second, [3, 5, 7], 120)
    assert second.dynamic.finder.exit == 5


@pytest.mark.parametrize("given", [{"window": 1}, {"share": 0.0}, {"share": 1.5}, {"deepest": 0}])
def test_options_that_leave_nothing_to_choose_by_are_refused(given: dict[str, float]):
    with pytest.raises(UsageError, match="use"):
        ExitOptions(**given)


def test_engines_of_other_sizes_do_not_make_each_other_think():
    """Rows and context at hand alternate; each has its own prices and choice."""
    drafter = tuned(net := planted(4))
    decoded(net, drafter, [3, 5, 7])
    finder = drafter.dynamic.finder
    costs = Counted(Uniform(12))
    states = [SimpleNamespace(history=[[0] * 9] * rows, rows=range(rows), costs=costs) for rows in (1, 8)]
    for state in states * 40:
        assert finder.choose(state) is not None
    asked = costs.asked
    for state in states * 10:
        finder.choose(state)
    assert costs.asked == asked


class Counted:
    def __init__(self, costs: Uniform) -> None:
        self.costs, self.asked = costs, 0

    def ms(self, step: Step) -> float:
        self.asked += 1
        return self.costs.ms(step)


def test_streams_of_a_network_that_was_moved_are_dropped():
    drafter = tuned(net := planted(4))
    decoded(net, drafter, [3, 5, 7])
    finder = drafter.dynamic.finder
    moved = ExitSample({2: torch.zeros(99, 48, dtype=torch.float64)}, range(99), [1] * 99, SamplingParams())
    finder._samples = [moved]
    seen = finder.sights[2].agreement.of
    finder.work(SimpleNamespace(network=net, history=[[0] * 9], limits=SimpleNamespace(nodes=9)), net.logits)
    assert finder.sights[2].agreement.of == seen


def test_numbers_that_are_none_make_no_choice_likely():
    sights = ExitSights()
    ExitSample({}, range(3), [1, 2, 3], SamplingParams()).judge(torch.full((3, 9), float("nan")), sights)
    assert sights.agreement.share < 0.5


def test_rows_are_not_sure_at_the_same_time():
    unsure = seen({0.95: 0.95, 0.05: 0.02})
    assert (
        forecast(unsure, prices(), 8 / prices().plain, 8, 16).tokens
        < 8 * forecast(unsure, prices(), 1 / prices().plain, 1, 16).tokens
    )


# what an exit is worth


def seen(right: dict[float, float], count: int = 300) -> ExitSights:
    """An exit whose choices of these confidences are right with these chances, all confidences as frequent."""
    sights, rng = ExitSights(), random.Random(0)
    for _ in range(count):
        for confidence, chance in right.items():
            sights.see([confidence], 0 if rng.random() < chance else None)
    return sights


def prices(exit_layer: int = 3, layers: int = 12) -> ExitPrices:
    return At(1, 0, 17).prices(Uniform(layers), layers, exit_layer, Heads({True: 0.0}))


def best_rate(sights: ExitSights, exit_layer: int = 3) -> float:
    """Over plain decoding, at the rate that is worth what it comes to."""
    at, rate = prices(exit_layer), 0.0
    for _ in range(20):
        rate = max(rate, 1 / at.plain, forecast(sights, at, rate, 1, 16).rate)
    return rate * at.plain


def test_an_exit_that_is_always_right_is_worth_the_whole_depth():
    found = forecast(seen({0.95: 1.0}), prices(), 1 / prices().plain, 1, 16)
    assert found.tokens > 10


def test_knowing_when_one_is_right_is_worth_more_than_being_right_as_often_without_knowing():
    assert best_rate(seen({0.95: 0.95, 0.15: 0.05})) > 1.05 * best_rate(seen({0.55: 0.5}))


def test_an_exit_that_is_hardly_ever_right_is_worth_less_than_plain_decoding():
    assert forecast(seen({0.9: 0.01}), prices(), 1 / prices().plain, 1, 16).rate <= 1 / prices().plain


def test_before_anything_was_seen_of_a_confidence_it_counts_as_the_others_proved():
    sights = seen({0.75: 0.1})
    assert sights.chances([0.95])[0] < 0.2
    assert sights.chances([0.95, 0.9])[1] <= sights.chances([0.95, 0.9])[0]
