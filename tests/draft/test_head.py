"""The draft's head: whole, or a part of the vocabulary and the text's own tokens."""

from __future__ import annotations

import math

import pytest
import torch
from decoding import SLOTS, alone, network

from skipstone.cost import CostModel, CostTable
from skipstone.curve import Curve, Surface
from skipstone.draft.exit import ExitDrafter
from skipstone.draft.head import DraftHead
from skipstone.draft.skip import SkipDrafter
from skipstone.engine import Engine
from skipstone.errors import UsageError
from skipstone.request import Request
from skipstone.sampling import SamplingParams
from skipstone.testing import tiny_network

PROMPT = [50, 9, 60, 3]


def flat(ms: float) -> Surface:
    return Surface((1.0, 64.0), (Curve((1.0, 64.0), (ms, ms)), Curve((1.0, 64.0), (ms, ms))))


def costs(head_ms_per_word: float, layers: int, words: int) -> CostModel:
    """A machine on which a sublayer takes a millisecond and the head so much for every word."""
    curve = Curve((1.0, 64.0), (1.0, 1.0))
    low, high = 1.0 * head_ms_per_word, words * head_ms_per_word
    head = Surface((1.0, float(words)), (Curve((1.0, 64.0), (low, low)), Curve((1.0, 64.0), (high, high))))
    return CostModel(CostTable(layers, words, flat(0.1), curve, flat(0.0), 0.0, curve, head))


def drafts(drafter: SkipDrafter, net, request: Request) -> list[tuple[list[int], list[int]]]:
    """(text so far, drafted tokens) of every step."""
    seen = []
    propose = drafter.propose

    def spying(state):
        draft = propose(state)
        seen.append((list(state.history[0]), draft.tokens[0, 1:].tolist()))
        return draft

    drafter.propose = spying  # type: ignore[method-assign]
    alone(net, request, drafter)
    return seen


def test_a_narrow_head_drafts_frequent_tokens_and_those_of_the_text() -> None:
    net = network()
    request = Request(PROMPT, 20, SamplingParams(temperature=1.2, seed=4))
    seen = drafts(SkipDrafter(SkipDrafter.Options(plan="uniform", head="8"), net), net, request)
    for text, drafted in seen:
        assert all(token < 8 or token in text for token in drafted)
    assert any(token >= 8 for _, drafted in seen for token in drafted)  # what the text itself brought in


def test_a_whole_head_drafts_any_token() -> None:
    net = network()
    request = Request(PROMPT, 20, SamplingParams(temperature=1.2, seed=4))
    seen = drafts(SkipDrafter(SkipDrafter.Options(plan="uniform", head="full"), net), net, request)
    assert any(token >= 8 and token not in text for text, drafted in seen for token in drafted)


def test_a_narrow_heads_scores_are_those_of_the_whole_head() -> None:
    net = network()
    head, hidden = DraftHead("8", net), torch.randn(1, 1, 32, dtype=torch.float64)
    engine = Engine(net, SkipDrafter(SkipDrafter.Options(plan="uniform"), net), capacity=SLOTS)
    engine.admit(Request(PROMPT, 4))
    state = engine._state(list(engine._active.values()))
    head.look(state, SkipDrafter(SkipDrafter.Options(plan="uniform"), net).plan, 3)
    part, whole = head(state, hidden)[0], net.logits(hidden)[0, -1]
    known = [*range(8), 50, 9, 60]
    assert torch.allclose(part[known], whole[known], atol=1e-12)
    others = [token for token in range(net.vocab_size) if token not in known]
    assert torch.all(part[others] == -math.inf)


@pytest.mark.parametrize(("per_word", "narrow"), [(1.0, True), (1e-6, False)])
def test_auto_takes_part_of_the_head_where_that_pays(per_word: float, narrow: bool) -> None:
    net = tiny_network(vocab_size=2048, agreeing=0.9)
    drafter = ExitDrafter(ExitDrafter.Options(layer=1), net)
    assert drafter.uses_costs
    engine = Engine(net, drafter, capacity=SLOTS, costs=costs(per_word, 4, 2048))
    engine.admit(Request([5, 9, 60, 3], 12))
    while engine.busy:
        engine.step()
    assert drafter.head.narrow == narrow


def test_auto_is_the_whole_head_where_costs_are_not_known_or_the_vocabulary_is_small() -> None:
    large = ExitDrafter(ExitDrafter.Options(layer=1), tiny_network(vocab_size=2048))
    alone(tiny_network(vocab_size=2048), Request(PROMPT, 6), large)
    assert not large.head.narrow
    assert not ExitDrafter(ExitDrafter.Options(layer=1), network()).uses_costs


def test_auto_returns_to_the_whole_head_where_texts_use_rare_words() -> None:
    net = tiny_network(vocab_size=2048, agreeing=0.9)
    drafter = ExitDrafter(ExitDrafter.Options(layer=1), net)
    drafter.head._known.value = 0.2
    engine = Engine(net, drafter, capacity=SLOTS, costs=costs(0.01, 4, 2048))
    engine.admit(Request([5, 9, 60, 3], 6))
    while engine.busy:
        engine.step()
    assert not drafter.head.narrow


def test_rows_bring_their_own_tokens_and_take_them_along() -> None:
    net = network()
    drafter = SkipDrafter(SkipDrafter.Options(plan="uniform", head="4"), net)
    engine = Engine(net, drafter, capacity=SLOTS, rows=2)
    rows = [engine.admit(Request(prompt, 3))[0] for prompt in ([50, 51], [60, 61])]
    engine.step()
    assert {50, 51} <= set(drafter.head._texts[rows[0]].extra)
    assert 60 not in drafter.head._texts[rows[0]].extra
    for row in rows:
        engine.release(row)
    assert drafter.head._texts == {}


@pytest.mark.parametrize("head", ["", "none", "-4", "0", "4.5", "1000000000"])
def test_a_head_there_is_not_is_refused_with_the_limit(head: str) -> None:
    with pytest.raises(UsageError, match="use auto, full or how many tokens, 1 to 999999999"):
        SkipDrafter.Options(plan="uniform", head=head)
