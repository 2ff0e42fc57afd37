"""Shapes of drafts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skipstone.errors import UsageError
from skipstone.tree import NO_PARENT, Draft, Topology, root_only


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    size = draw(st.integers(1, 12))
    return Topology((NO_PARENT, *(draw(st.integers(NO_PARENT, node - 1)) for node in range(1, size))))


def test_a_chain_is_a_node_after_the_other():
    chain = Topology.chain(4)
    assert chain.parents == (-1, 0, 1, 2)
    assert chain.backbone == (0, 1, 2, 3)
    assert chain.depth == (0, 1, 2, 3)
    assert Topology.chain(1).parents == (NO_PARENT,)


def test_a_comb_is_a_backbone_and_then_the_siblings_depth_by_depth():
    comb = Topology.comb((3, 1, 2))
    assert comb.parents == (-1, 0, 1, 2, 0, 0, 2)
    assert comb.backbone == (0, 1, 2, 3)
    assert comb.depth == (0, 1, 2, 3, 1, 1, 3)
    assert comb.children == ((1, 4, 5), (2,), (3, 6), (), (), (), ())


@given(st.lists(st.integers(1, 4), max_size=6))
def test_a_comb_has_as_many_choices_at_each_depth_as_asked_for(widths: list[int]):
    comb = Topology.comb(tuple(widths))
    assert [comb.depth.count(depth) for depth in range(1, len(widths) + 1)] == widths
    assert comb.backbone == tuple(range(1 + len(widths)))


def test_a_comb_of_single_choices_is_a_chain():
    assert Topology.comb((1, 1, 1)) == Topology.chain(4)
    assert Topology.comb(()) == Topology.chain(1)


@given(topologies())
def test_a_node_sees_itself_and_what_lies_on_its_path(topology: Topology):
    for node in range(len(topology)):
        seen = set(topology.ancestors[node].nonzero()[:, 0].tolist())
        root = node if not topology.path(node) else topology.parents[topology.path(node)[0]]
        assert seen == {root, node, *topology.path(node)}
        assert topology.depth[node] == len(topology.path(node)) == int(topology.depths[node])


@given(topologies())
def test_children_and_parents_agree(topology: Topology):
    pairs = {(parent, node) for node, parent in enumerate(topology.parents) if parent != NO_PARENT}
    assert {(parent, child) for parent, children in enumerate(topology.children) for child in children} == pairs


@pytest.mark.parametrize("parents", [(), (0,), (-1, 1), (-1, 2, 0), (-2,)])
def test_a_topology_whose_parents_do_not_come_first_is_refused(parents: tuple[int, ...]):
    with pytest.raises(UsageError):
        Topology(parents)


def test_a_draft_whose_shapes_do_not_fit_is_refused():
    tokens = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(UsageError, match=r"4 nodes needs tokens and live of shape \(2, 4\)"):
        Draft(Topology.chain(4), tokens, tokens.bool())
    with pytest.raises(UsageError):
        Draft(Topology.chain(3), tokens, tokens[:1].bool())


def test_a_draft_of_nothing_is_the_pending_tokens():
    draft = root_only([4, 7])
    assert draft.tokens.tolist() == [[4], [7]]
    assert draft.live.all()
    assert len(draft.topology) == 1
