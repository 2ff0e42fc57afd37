"""The check for plugin authors finds every breach, and says which."""

from dataclasses import replace

import pytest
import torch
from decoding import RandomDrafter, plain

from skipstone.draft.exit import ExitDrafter
from skipstone.testing import check_drafter
from skipstone.tree import Draft, Resume, Topology

CHAIN = Topology.chain(2)


def _guess(state, token: int = 0) -> Draft:
    """One token a row, live where there is use for it."""
    tokens = torch.tensor([[pending, token] for pending in state.pending])
    live = torch.tensor([[True, depth > 0] for depth in state.limits.depths])
    return Draft(CHAIN, tokens, live)


def _wide(state, parents, tokens) -> Draft:
    B = len(state.rows)
    live = torch.tensor(Topology(parents).depth) <= torch.tensor(state.limits.depths)[:, None]
    return Draft(Topology(parents), torch.tensor([[p, *tokens] for p in state.pending]).expand(B, -1), live)


def _live_everywhere(state) -> Draft:
    draft = _guess(state)
    return replace(draft, live=torch.ones_like(draft.live))


def _forgetting(state) -> Draft:
    state.cache.truncate(state.rows[0], 0)
    return _guess(state)


def _scribbling(state) -> Draft:
    state.cache.keys[1][state.rows[0], :, :1] += 1
    return _guess(state)


def _resuming(state, layer: int = 1, shape=None) -> Draft:
    draft = _guess(state)
    hidden = torch.zeros(*(shape or draft.tokens.shape), 32, dtype=torch.float64)
    return replace(draft, resume=Resume(hidden, layer))


def _dead_root(state) -> Draft:
    draft = _guess(state)
    return replace(draft, live=torch.zeros_like(draft.live))


BREACHES = {
    "must give the pending token": lambda s: replace(_guess(s), tokens=_guess(s).tokens.roll(1, dims=1)),
    "must mark node 0": _dead_root,
    "not in the vocabulary: [64] (fillers": lambda s: _guess(s, 64),
    "the same child twice": lambda s: _wide(s, (-1, 0, 0), (3, 3)),
    "more than one root": lambda s: _wide(s, (-1, -1), (3,)),
    "but limits.nodes is": lambda s: _wide(s, tuple(range(-1, 29)), (3,) * 29),
    "where the row has use for 0 tokens only": _live_everywhere,
    "gives tokens as torch.int32": lambda s: replace(_guess(s), tokens=_guess(s).tokens.int()),
    "drafts for 2 rows, but there are 1": lambda s: Draft(
        CHAIN, *(t.repeat(2, 1) for t in (_guess(s).tokens, _guess(s).live))
    ),
    "commits or truncates": _forgetting,
    "writes into committed slots": _scribbling,
    "changes the text": _resuming,
    "resumes at layer 9: use 1 to 4": lambda s: _resuming(s, layer=9),
    "hidden states to resume from": lambda s: _resuming(s, shape=(1, 5)),
    "probabilities of shape (1, 1, 3), not (1, 1, 64)": lambda s: replace(_guess(s), probs=torch.zeros(1, 1, 3)),
    "probabilities for a tree": lambda s: replace(_wide(s, (-1, 0, 0), (1, 2)), probs=torch.zeros(1, 2, 64)),
}


class Breaching(RandomDrafter):
    """Answers as ``breach`` says."""

    breach = staticmethod(_guess)

    def propose(self, state):
        return type(self).breach(state)


@pytest.mark.parametrize("sentence", BREACHES)
def test_a_breach_is_named(sentence: str):
    kind = type("Breaching", (Breaching,), {"breach": staticmethod(BREACHES[sentence])})
    with pytest.raises(AssertionError) as caught:
        check_drafter(lambda net: kind(net, 0))
    assert str(caught.value).startswith("Breaching ")
    assert sentence in str(caught.value)


class Keeping(ExitDrafter):
    """Never forgets a text, so that the next one in its row is not taken in."""

    def __init__(self, options, net):
        super().__init__(options, net)
        self.rows: set[int] = set()

    def admit(self, row, request):
        if row in self.rows:
            raise KeyError(row)
        self.rows.add(row)


def test_rows_are_released_and_admitted_again():
    with pytest.raises(KeyError):
        check_drafter(lambda net: Keeping(ExitDrafter.Options(), net))


def test_a_drafter_without_a_breach_passes():
    check_drafter(lambda net: type("Guessing", (Breaching,), {})(net, 0))
    check_drafter(plain)


def test_wild_trees_pass():
    check_drafter(lambda net: RandomDrafter(net, seed=7))
