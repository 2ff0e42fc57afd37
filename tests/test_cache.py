"""Slots: who goes where, who sees what, what stays."""

import pytest
import torch

from skipstone.cache import KVCache, LayerShape
from skipstone.errors import CapacityError, UsageError
from skipstone.tree import NO_PARENT, Topology

COMB = Topology.comb((2, 1))  # nodes 0 1 2, and 3 beside 1


def _cache(lengths: list[int], capacity: int = 12) -> KVCache:
    """A cache in which slot s of row r holds the number 100 r + s."""
    cache = KVCache([LayerShape(1, 2, 3)] * 2, len(lengths), capacity, dtype=torch.float64, device=torch.device("cpu"))
    for buffer in (*cache.keys, *cache.values):
        buffer += 100 * torch.arange(len(lengths))[:, None, None, None] + torch.arange(capacity)[None, None, :, None]
    cache.lengths = list(lengths)
    return cache


def _held(cache: KVCache, row: int) -> list[int]:
    """What the committed slots of a row hold, the same in every layer, key and value."""
    held = {tuple(buffer[row, 0, : cache.lengths[row], 0].int().tolist()) for buffer in (*cache.keys, *cache.values)}
    assert len(held) == 1
    return list(held.pop())


def _seen(visible: torch.Tensor) -> list[list[int]]:
    return [node.nonzero()[:, 0].tolist() for node in visible]


def test_nodes_go_above_the_committed_slots_and_see_them_and_their_ancestors():
    placement = _cache([3, 5]).place(COMB, [0, 1])
    assert placement.slots.tolist() == [[3, 4, 5, 6], [5, 6, 7, 8]]
    assert placement.positions.tolist() == [[3, 4, 5, 4], [5, 6, 7, 6]]
    assert placement.extent == 9
    assert _seen(placement.visible[0]) == [[0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 6]]
    assert placement.key_positions[0, :7].tolist() == [0, 1, 2, 3, 4, 5, 4]


def test_rows_may_be_any_in_any_order():
    placement = _cache([3, 5, 1]).place(Topology.chain(2), [2, 0])
    assert placement.slots.tolist() == [[1, 2], [3, 4]]
    assert placement.span is None
    assert _cache([3, 5, 1]).place(Topology.chain(2), [1, 2]).span == slice(1, 3)


def test_nodes_after_others_are_placed_as_in_the_whole_draft():
    whole, late = (_cache([3, 5]).place(COMB, [0, 1], after=after) for after in (0, 2))
    assert late.first == (5, 7)
    for name in ("slots", "positions", "reach", "visible"):
        assert torch.equal(getattr(late, name), getattr(whole, name)[:, 2:])
    assert torch.equal(late.key_positions, whole.key_positions)


def test_a_replay_sees_no_more_than_its_prefix():
    roots = Topology((NO_PARENT,) * 3)
    placement = _cache([4]).place(roots, [0], prefix=torch.tensor([[0, 2, 3]]))
    assert placement.positions.tolist() == [[0, 2, 3]]
    assert _seen(placement.visible[0]) == [[4], [0, 1, 5], [0, 1, 2, 6]]
    assert placement.key_positions.tolist() == [[0, 1, 2, 3, 0, 2, 3]]


def test_prompt_nodes_reach_as_far_as_the_prompt_and_others_as_far_as_themselves():
    cache = _cache([3])
    cache.prompt_lengths = [5]
    assert cache.place(Topology.chain(4), [0]).reach.tolist() == [[5, 5, 6, 7]]


@pytest.mark.parametrize(
    ("lengths", "topology", "unmasked"),
    [
        ([3, 3], Topology.chain(1), True),
        ([3, 4], Topology.chain(1), False),
        ([3], Topology.chain(2), False),
    ],
)
def test_single_nodes_of_rows_of_one_length_need_no_mask(lengths: list[int], topology: Topology, unmasked: bool):
    placement = _cache(lengths).place(topology, range(len(lengths)))
    assert placement.unmasked == unmasked
    if unmasked:
        assert placement.visible.all()


def test_a_replayed_root_is_not_unmasked():
    assert not _cache([3]).place(Topology.chain(1), [0], prefix=torch.tensor([[1]])).unmasked


def test_placing_changes_nothing():
    cache = _cache([3, 5])
    cache.place(COMB, [0, 1])
    assert cache.lengths == [3, 5]
    assert _held(cache, 1) == [100, 101, 102, 103, 104]


def test_the_last_slot_can_be_used_and_no_more():
    cache = _cache([3, 8])
    assert cache.place(COMB, [0, 1]).extent == 12
    with pytest.raises(CapacityError, match="5 nodes after 8 committed tokens exceed the cache's 12 slots"):
        cache.place(Topology.chain(5), [0, 1])
    cache.place(Topology.chain(9), [0])


@pytest.mark.parametrize("rows", [[0, 1], [2, 0]])
def test_what_is_written_lands_in_the_slots_and_comes_back_up_to_the_extent(rows: list[int]):
    cache = _cache([3, 5, 1])
    placement = cache.place(Topology.chain(2), rows)
    new = -torch.arange(1.0, 5.0, dtype=torch.float64).reshape(2, 1, 2, 1)
    keys, values = cache.write(1, placement, new.expand(2, 1, 2, 2), new.expand(2, 1, 2, 3))
    assert keys.shape == (2, 1, placement.extent, 2)
    assert values.shape == (2, 1, placement.extent, 3)
    for b, row in enumerate(rows):
        length = cache.lengths[row]
        assert keys[b, 0, length : length + 2, 0].tolist() == new[b, 0, :, 0].tolist()
        assert values[b, 0, :length, 0].tolist() == [100 * row + slot for slot in range(length)]
        assert torch.equal(cache.keys[1][row, :, : placement.extent], keys[b])
        assert float(cache.keys[0].min()) >= 0


def test_a_committed_chain_moves_nothing_and_a_branch_is_moved_together():
    cache = _cache([3, 5, 2])
    cache.commit([0, 1, 2], [[0, 1, 2], [0, 3], []])
    assert cache.lengths == [6, 7, 2]
    assert _held(cache, 0) == [0, 1, 2, 3, 4, 5]
    assert _held(cache, 1) == [100, 101, 102, 103, 104, 105, 108]
    assert _held(cache, 2) == [200, 201]


def test_a_branch_whose_nodes_lie_in_each_others_way_is_moved_whole():
    cache = _cache([1])
    cache.commit([0], [[0, 2, 3, 6]])
    assert _held(cache, 0) == [0, 1, 3, 4, 7]


def test_truncating_forgets_and_never_invents():
    cache = _cache([5])
    cache.truncate(0, 2)
    assert _held(cache, 0) == [0, 1]
    for length in (3, -1):
        with pytest.raises(UsageError, match="cannot truncate row 0 of 2"):
            cache.truncate(0, length)


def test_a_fork_holds_the_first_slots_of_its_source_and_lives_on_its_own():
    cache = _cache([5, 9])
    cache.prompt_lengths = [4, 0]
    cache.fork(0, 1, 3)
    assert (cache.lengths, cache.prompt_lengths) == ([5, 3], [4, 4])
    assert _held(cache, 1) == [0, 1, 2]
    cache.keys[0][0] = -1
    assert cache.keys[0][1, 0, :3, 0].tolist() == [0, 1, 2]
    with pytest.raises(UsageError, match="cannot fork 6 slots of row 0, which has 5"):
        cache.fork(0, 1, 6)


def test_a_reset_row_is_empty_and_a_wiped_one_is_zero():
    cache = _cache([5, 5])
    cache.reset(1, prompt_length=7)
    assert (cache.lengths, cache.prompt_lengths) == ([5, 0], [0, 7])
    cache.keys[1][1, 0, 8] = float("nan")
    cache.wipe(1)
    assert all(buffer[1].eq(0).all() for buffer in (*cache.keys, *cache.values))
    assert _held(cache, 0) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("rows", "capacity"), [(0, 4), (4, 0)])
def test_a_cache_that_holds_nothing_is_refused(rows: int, capacity: int):
    with pytest.raises(CapacityError, match="cannot hold anything"):
        KVCache([LayerShape(1, 1, 1)], rows, capacity, dtype=torch.float32, device=torch.device("cpu"))
