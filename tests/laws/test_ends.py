"""Where texts end: the same place whether a draft jumped over it or not."""

from dataclasses import dataclass, replace

import pytest
import torch
from decoding import SLOTS, VOCAB, RandomDrafter, Visit, alone, decode, network, plain
from drawing import prompts, requests, samplings
from hypothesis import assume, given
from hypothesis import strategies as st

from skipstone.drafting import DraftState
from skipstone.engine import Engine
from skipstone.request import Request
from skipstone.sampling import SamplingParams
from skipstone.stopping import StopTokens
from skipstone.telemetry import StepRecord
from skipstone.testing import tiny_network
from skipstone.tree import Draft, Topology

FREE = Request([11, 7, 3], 14, SamplingParams(temperature=0.9, seed=4))


class Oracle(RandomDrafter):
    """Drafts ``depth`` tokens of the plain text, all of which the target accepts."""

    depth = 5

    def propose(self, state: DraftState) -> Draft:
        depth = min(self.depth, state.limits.depth)
        done = len(state.history[0]) - self.prompts[state.rows[0]]
        known = self.plain[state.rows[0]][done : done + depth]
        tokens = torch.tensor([[*state.pending, *known, *[0] * (depth - len(known))]])
        return Draft(Topology.chain(1 + depth), tokens, torch.ones_like(tokens, dtype=torch.bool))


class Summaries:
    def __init__(self) -> None:
        self.records: list[StepRecord] = []

    def record(self, record: StepRecord) -> None:
        self.records.append(record)


def _by_oracle(request: Request, text: list[int]):
    return alone(network(), request, Oracle(network(), 0, lambda _: text))


@given(st.integers(0, 13), st.integers(1, 3))
def test_a_stop_token_inside_an_accepted_span_ends_the_output_there(place: int, others: int):
    text = alone(network(), FREE).tokens
    eos = frozenset([text[place], *range(VOCAB, VOCAB + others)])
    first = text.index(text[place])
    assert _by_oracle(FREE, text).tokens == text
    stopped = _by_oracle(replace(FREE, stops=(StopTokens(eos),)), text)
    assert stopped.tokens == text[: first + 1]
    assert stopped.reason == "eos"


@given(st.integers(0, 13))
def test_a_drafted_token_that_ends_the_text_was_right(place: int):
    """Of what was drafted behind it nothing is known; it says nothing against the drafter."""
    text = alone(network(), FREE).tokens
    seen = Summaries()
    engine = Engine(network(), Oracle(network(), 0, lambda _: text), capacity=SLOTS, sinks=[seen])
    engine.admit(replace(FREE, stops=(StopTokens(frozenset([text[place]])),)))
    while engine.busy:
        engine.step()
    assert all(record.right == record.judged for record in seen.records)
    last = seen.records[-1]
    assert last.judged == min(last.drafted, last.emitted)


def test_a_stop_token_that_is_the_bonus_token_ends_the_output_there():
    text = alone(network(), FREE).tokens
    bonus = Oracle.depth  # the first verification accepts tokens 0 .. depth - 1
    assert text.index(text[bonus]) == bonus
    assert _by_oracle(replace(FREE, stops=(StopTokens(frozenset([text[bonus]])),)), text).tokens == text[: bonus + 1]


def test_the_first_of_several_stop_rules_gives_the_reason():
    text = alone(network(), FREE).tokens
    rules = (StopTokens(frozenset([text[3]]), "stop_token"), StopTokens(frozenset([text[3], text[6]])))
    stopped = _by_oracle(replace(FREE, stops=rules), text)
    assert (stopped.tokens, stopped.reason) == (text[:4], "stop_token")


@given(prompts, samplings, st.integers(0, 99))
def test_a_text_ends_where_the_context_ends(prompt: list[int], sampling: SamplingParams, seed: int):
    net = tiny_network(layers=2, agreeing=0.9, max_position_embeddings=18)
    request = Request(prompt, 30, sampling)
    text = alone(net, request)
    assert (len(prompt) + len(text.tokens), text.reason) == (18, "context")
    drafted = alone(net, request, RandomDrafter(net, seed, lambda _: text.tokens))
    assert (drafted.tokens, drafted.reason) == (text.tokens, "context")


@given(requests, st.integers(0, 99))
def test_the_reason_of_the_end_does_not_depend_on_the_drafter(request: Request, seed: int):
    text = alone(network(), request)
    assert alone(network(), request, RandomDrafter(network(), seed, lambda _: text.tokens)).reason == text.reason


@dataclass
class UntilEnd:
    """Anything up to the end token, then nothing: as a grammar that is complete."""

    end: int
    ended: bool = False

    def mask(self, path):
        return torch.full((VOCAB,), not self.ended and self.end not in path)

    def advance(self, tokens):
        self.ended = self.ended or self.end in tokens

    def fork(self):
        return replace(self)


def test_a_text_that_ends_inside_a_draft_does_not_fail_on_what_would_come_after():
    text = alone(network(), FREE).tokens
    request = replace(FREE, constraint=UntilEnd(text[3]), stops=(StopTokens(frozenset([text[3]])),))
    stopped = _by_oracle(request, text)
    assert (stopped.tokens, stopped.reason, stopped.error) == (text[:4], "eos", None)


def test_a_row_can_be_used_to_its_last_slot():
    request = Request([1, 2, 3], 9)
    engine = Engine(network(), plain(network()), capacity=12)
    assert decode(engine, [Visit(request)])[0].tokens == alone(network(), request).tokens


@given(st.lists(st.integers(0, VOCAB - 1), min_size=2, max_size=30), st.integers(1, 30))
def test_scores_are_the_models_own_log_probabilities_however_they_are_chunked(tokens: list[int], chunk: int):
    net = network("windowed")
    engine = Engine(net, plain(net), capacity=SLOTS, prefill_chunk=chunk)
    own = net.model(torch.tensor([tokens])).logits[0].log_softmax(-1)
    want = own[:-1].gather(-1, torch.tensor(tokens[1:])[:, None])[:, 0]
    torch.testing.assert_close(engine.score(tokens), want.detach(), atol=1e-9, rtol=0)


@given(requests)
def test_scores_are_the_logprobs_of_generation(request: Request):
    net = network()
    text = alone(net, replace(request, logprobs=0))
    assume(text.tokens)
    scores = Engine(net, plain(net), capacity=SLOTS).score([*request.prompt, *text.tokens])
    got = [entry.logprob for entry in text.logprobs]
    assert got == pytest.approx(scores[len(request.prompt) - 1 :].tolist(), abs=1e-9)
