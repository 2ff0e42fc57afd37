"""What a drafter is told of a verification, where it asks."""

from dataclasses import dataclass, field, replace

import pytest
import torch
from decoding import RandomDrafter, network

from skipstone.draft.exit import ExitDrafter
from skipstone.draft.none import NoDrafter
from skipstone.drafting import Drafter, DraftState
from skipstone.engine import Engine
from skipstone.network import Network
from skipstone.plan import LayerPlan
from skipstone.request import Request
from skipstone.telemetry import StepRecord
from skipstone.testing.drafters import plain_text
from skipstone.tree import Draft, Feedback, Topology, Verified

LAYERS = 4


@dataclass
class Asking:
    """Another drafter, with a question of its own about every verification."""

    drafter: Drafter
    heard: list[tuple[list[int], Verified]] = field(default_factory=list)  # with the row's history before it

    def admit(self, row: int, request: Request) -> None:
        self.drafter.admit(row, request)

    def release(self, row: int) -> None:
        self.drafter.release(row)

    def observe(self, record: StepRecord) -> None:
        self.drafter.observe(record)

    def propose(self, state: DraftState) -> Draft:
        draft = self.drafter.propose(state)
        first = 0 if draft.resume is None else draft.resume.layer
        heard = lambda verified: self.heard.append((list(state.history[verified.place]), verified))  # noqa: E731
        return replace(draft, feedback=Feedback(heard, tuple(range(first, LAYERS + 1))))


def streams(net: Network, tokens: list[int]) -> dict[int, torch.Tensor]:
    """What enters each layer at each position of a text: a run of all of it at once."""
    cache = net.new_cache(1, len(tokens))
    cache.reset(0, len(tokens))
    placement = cache.place(Topology.chain(len(tokens)), [0])
    run = net.run(torch.tensor([tokens]), placement, cache, LayerPlan.full(LAYERS), range(LAYERS + 1))
    return {layer: tap[0] for layer, tap in run.taps.items()}


@pytest.mark.parametrize("drafter", ["none", "random", "exit", "exit with siblings"])
def test_it_hears_what_the_target_said_and_the_streams_that_led_there(drafter: str):
    net = network()
    request = Request([5, 9, 2], 16)
    text = plain_text(net, request)
    asking = Asking(
        {
            "none": lambda: NoDrafter(NoDrafter.Options(), net),
            "random": lambda: RandomDrafter(net, 3, lambda _: text),
            "exit": lambda: ExitDrafter(ExitDrafter.Options(layer=2, depth=3), net),
            "exit with siblings": lambda: ExitDrafter(ExitDrafter.Options(layer=1, depth=2, width=3), net),
        }[drafter]()
    )
    engine = Engine(net, asking, capacity=40)
    engine.admit(request)
    while engine.busy:
        engine.step()
    assert [token for _, verified in asking.heard for token in verified.said] == text
    whole = streams(net, [*request.prompt, *text])
    for history, verified in asking.heard:
        first = len(history) - 1
        for layer, tap in verified.taps.items():
            torch.testing.assert_close(tap, whole[layer][first : first + len(verified.said)])
