"""What is not committed does not exist, and how a network is run does not show in what it says."""

import pytest
from decoding import FUSED, NETWORKS, SLOTS, alone, network
from drawing import built_in, requests
from hypothesis import given
from hypothesis import strategies as st

from skipstone.engine import Engine
from skipstone.plugins import make_drafter
from skipstone.request import Request
from skipstone.sampling import SamplingParams
from skipstone.testing import check_network, tiny_network


@given(requests, st.data())
def test_rejected_tokens_leave_no_trace(request: Request, data: st.DataObject):
    net = network(data.draw(st.sampled_from(sorted([*NETWORKS, *FUSED]))))
    engine = Engine(net, data.draw(built_in(net)), rows=2, capacity=SLOTS, prefill_chunk=3)
    engine.admit(request, samples=2)
    texts: list[list[int]] = [[], []]
    while engine.busy:
        for emission in engine.step():
            texts[emission.row] += emission.tokens
        for buffer in (*engine.cache.keys, *engine.cache.values):
            for row, length in enumerate(engine.cache.lengths):
                buffer[row, :, length:] = 1e6
    assert texts[0] == alone(net, request).tokens


@pytest.mark.parametrize("name", [*NETWORKS, *FUSED])
def test_chunks_branches_rows_exits_and_skips_do_not_show(name: str):
    """Among others: early exit, then resume, equals a full run."""
    check_network(network(name))


@pytest.mark.parametrize(
    "drafter",
    ["skip:plan=uniform,depth=3", "skip:plan=uniform,depth=3,width=3", "ngram:min=1", "exit:layer=1", "exit:window=2"],
)
@pytest.mark.parametrize("prompt", [[1, 2, 3], [7, 50, 9, 50], [21, 5], [40, 41, 40, 41], [7, 60, 9]])
def test_a_guess_that_makes_no_numbers_does_not_change_the_text(drafter: str, prompt: list[int]):
    net = tiny_network(layers=4, agreeing=0.6)
    net.model.model.embed_tokens.weight.data[58:] = float("nan")
    request = Request(prompt, 20, SamplingParams(temperature=1.0, seed=4))
    plain, drafted = alone(net, request), alone(net, request, make_drafter(drafter, net))
    assert drafted.tokens == plain.tokens
    assert type(drafted.error) is type(plain.error)
