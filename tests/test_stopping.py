"""Rules that end texts."""

from hypothesis import given
from hypothesis import strategies as st

from skipstone.stopping import Length, Stop, StopTokens, first_stop

tokens = st.lists(st.integers(0, 5), max_size=6)


def test_stop_tokens_end_a_text_at_the_first_of_them():
    rule = StopTokens(frozenset([3, 4]), "stop_token")
    assert rule.clip([3], [1, 4, 3]) == Stop(2, "stop_token")
    assert rule.clip([3], [1, 2]) is None
    assert rule.clip([], []) is None


def test_a_length_ends_a_text_at_the_token_that_fills_it():
    rule = Length(4)
    assert rule.clip([1, 1], [1, 1, 1]) == Stop(2, "length")
    assert rule.clip([1, 1], [1, 1]) == Stop(2, "length")
    assert rule.clip([1, 1], [1]) is None


def test_the_earliest_end_wins_and_of_equals_the_first_rule():
    eos, one, full = StopTokens(frozenset([2])), StopTokens(frozenset([1]), "stop_token"), Length(3)
    assert first_stop([full, eos, one], [], [0, 1, 2]) == Stop(2, "stop_token")
    assert first_stop([eos, full], [], [0, 0, 2]) == Stop(3, "eos")
    assert first_stop([full, eos], [], [0, 0, 2]) == Stop(3, "length")
    assert first_stop([eos], [], [0, 0]) is None
    assert first_stop([], [], [0]) is None


@given(tokens, tokens, st.integers(7, 12), st.frozensets(st.integers(0, 5), max_size=2))
def test_where_a_text_ends_does_not_depend_on_how_it_is_cut_into_steps(done, new, limit, ends):
    rules = [StopTokens(ends), Length(limit)]
    at_once = first_stop(rules, done, new)
    one_by_one = None
    for count in range(len(new)):
        stop = first_stop(rules, [*done, *new[:count]], [new[count]])
        if stop is not None:
            one_by_one = Stop(count + 1, stop.reason)
            break
    assert at_once == one_by_one
