"""What a row says depends on no other row: not on how many there are, how long they are, or how they fail."""

from dataclasses import dataclass, replace

import pytest
import torch
from decoding import FUSED, NETWORKS, SLOTS, VOCAB, RandomDrafter, Visit, alone, decode, network, plain
from drawing import requests
from hypothesis import given
from hypothesis import strategies as st

from skipstone.engine import Engine
from skipstone.errors import ConstraintError, NumericsError
from skipstone.request import Request
from skipstone.sampling import SamplingParams
from skipstone.testing import tiny_network

POISON = 63  # a token whose embedding is not a number


@given(st.lists(requests, min_size=2, max_size=5), st.sampled_from([*NETWORKS, *FUSED]))
def test_a_row_does_not_depend_on_its_neighbours_or_on_the_batch_size(asked: list[Request], name: str):
    net = network(name)
    texts = decode(Engine(net, plain(net), rows=len(asked), capacity=SLOTS), [Visit(request) for request in asked])
    assert [text.tokens for text in texts] == [alone(net, request).tokens for request in asked]


@dataclass
class DeadEnd:
    """Allows every token, then none."""

    left: int

    def mask(self, path):
        return torch.full((VOCAB,), len(path) < self.left)

    def advance(self, tokens):
        self.left -= len(tokens)

    def fork(self):
        return replace(self)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_whose_constraint_allows_nothing_ends_with_an_error_and_harms_no_other(temperature: float):
    net = network()
    healthy = Request([3, 1, 4], 12, SamplingParams(temperature=temperature))
    stuck = replace(healthy, constraint=DeadEnd(5))
    want = alone(net, healthy).tokens
    drafter = RandomDrafter(net, 1, lambda _: want)
    texts = decode(Engine(net, drafter, rows=3, capacity=SLOTS), [Visit(healthy), Visit(stuck), Visit(healthy)])
    assert [text.tokens for text in texts] == [want, want[:5], want]
    assert [text.reason for text in texts] == ["length", "error", "length"]
    assert isinstance(texts[1].error, ConstraintError)


def test_a_row_whose_logits_are_not_finite_ends_with_an_error_and_harms_no_other_then_or_later():
    net = tiny_network(seed=5)
    with torch.no_grad():
        net.model.model.embed_tokens.weight[POISON] = float("nan")
    never = SamplingParams(logit_bias={POISON: -float("inf")})
    long, short = Request([1, 2] * 6, 12, never), Request([3], 9, never)
    poisoned = Request([*[4] * 5, POISON, 5], 12, never)
    engine = Engine(net, plain(net), rows=2, capacity=SLOTS)
    texts = decode(engine, [Visit(long), Visit(poisoned), Visit(short)])  # short follows in the poisoned row
    assert isinstance(texts[1].error, NumericsError)
    assert [texts[0].tokens, texts[2].tokens] == [alone(net, long).tokens, alone(net, short).tokens]


def test_a_row_can_be_dropped_in_the_middle_of_its_prefill():
    net = network()
    engine = Engine(net, plain(net), rows=2, capacity=SLOTS, prefill_chunk=2)
    first = engine.admit(Request([9] * 12, 4), samples=2)
    engine.step()
    engine.release(first[0])
    request = Request([1, 2, 3], 6)
    [row] = engine.admit(request)
    texts: dict[int, list[int]] = {row: [], first[1]: []}
    while engine.busy:
        for emission in engine.step():
            texts[emission.row] += emission.tokens
    assert texts[row] == alone(net, request).tokens
    assert texts[first[1]] == alone(net, Request([9] * 12, 4)).tokens
