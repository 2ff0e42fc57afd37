"""Prompt lookup."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
import torch

from skipstone.draft.ngram import NgramDrafter
from skipstone.drafting import DraftState, Limits
from skipstone.errors import UsageError
from skipstone.testing import check_drafter
from skipstone.tree import Draft

Options = NgramDrafter.Options
ANYWHERE = SimpleNamespace(device=torch.device("cpu"))


def _state(histories: Sequence[Sequence[int]], depths: Sequence[int], nodes: int) -> DraftState:
    rows = tuple(range(len(histories)))
    return DraftState(rows, tuple(histories), None, ANYWHERE, Limits(nodes, tuple(depths)), (), None)


def _drafter(options: Options, rows: int = 1) -> NgramDrafter:
    drafter = NgramDrafter(options, ANYWHERE)
    for row in range(rows):
        drafter.admit(row, None)
    return drafter


DEFAULTS = Options()


def _guess(text: Sequence[int], options: Options = DEFAULTS, depth: int = 99, nodes: int = 99) -> list[int]:
    return _drafter(options).propose(_state([text], [depth], nodes)).tokens[0, 1:].tolist()


def _rows(draft: Draft) -> list[list[int]]:
    return [tokens[live].tolist() for tokens, live in zip(draft.tokens, draft.live, strict=True)]


def test_what_followed_the_last_tokens_comes_again():
    assert _guess([1, 2, 3, 4, 5, 1, 2]) == [3, 4, 5, 1, 2]


def test_a_longer_match_beats_a_newer_one():
    assert _guess([7, 1, 2, 3, 9, 1, 2, 4, 7, 1, 2])[:1] == [3]


def test_of_equal_matches_the_newest_wins():
    assert _guess([8, 1, 2, 3, 9, 1, 2, 4, 7, 1, 2])[:1] == [4]


def test_matches_longer_than_the_longest_looked_for_count_as_equal():
    text = [6, 7, 1, 2, 3, 9, 7, 1, 2, 4, 6, 7, 1, 2]
    assert _guess(text, Options(max=4))[:1] == [3]
    assert _guess(text, Options(max=3))[:1] == [4]


@pytest.mark.parametrize("text", [[1], [1, 2], [1, 2, 3, 4], [2, 5, 2]])
def test_without_a_match_nothing_is_drafted(text: list[int]):
    assert _guess(text) == []


def test_one_token_is_match_enough_where_the_options_say_so():
    assert _guess([2, 5, 2], Options(min=1)) == [5, 2]


def test_a_text_that_repeats_one_token_is_continued_by_it():
    assert _guess([4] * 5, Options(min=1)) == [4]


@pytest.mark.parametrize(
    ("depth", "nodes", "most", "length"), [(99, 99, 3, 3), (2, 99, 8, 2), (0, 99, 8, 0), (99, 5, 8, 4)]
)
def test_guesses_end_at_the_limits(depth: int, nodes: int, most: int, length: int):
    assert _guess([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2], Options(depth=most), depth, nodes) == [3, 4, 5, 6][:length]


def test_rows_with_shorter_guesses_are_filled_up():
    texts = [[1, 2, 3, 4, 5, 1, 2], [1, 2, 3, 1, 2], [6, 7], [1, 2, 3, 4, 5, 1, 2]]
    draft = _drafter(Options(), 4).propose(_state(texts, [9, 9, 9, 1], 99))
    assert _rows(draft) == [[2, 3, 4, 5, 1, 2], [2, 3, 1, 2], [7], [2, 3]]


def test_a_text_is_looked_up_as_it_grows():
    drafter = _drafter(Options())
    assert _rows(drafter.propose(_state([[1, 2, 3]], [9], 9))) == [[3]]
    assert _rows(drafter.propose(_state([[1, 2, 3, 5, 1, 2]], [9], 9))) == [[2, 3, 5, 1, 2]]
    assert _rows(drafter.propose(_state([[1, 2, 3, 5, 1, 2, 8, 5, 1, 2]], [9], 9)))[0][:2] == [2, 8]


def test_a_new_text_in_the_same_row_knows_nothing_of_the_old():
    drafter = _drafter(Options())
    drafter.propose(_state([[1, 2, 3, 1, 2]], [9], 9))
    drafter.release(0)
    drafter.admit(0, None)
    assert _rows(drafter.propose(_state([[1, 2]], [9], 9))) == [[2]]


@pytest.mark.parametrize("options", [{"min": 0}, {"min": 3, "max": 2}, {"depth": 0}])
def test_options_out_of_range_are_refused(options: dict[str, int]):
    with pytest.raises(UsageError, match="ngram:"):
        Options(**options)


@pytest.mark.parametrize("options", [Options(), Options(min=1, max=3, depth=30)])
def test_it_keeps_the_contract(options: Options):
    check_drafter(lambda net: NgramDrafter(options, net))
