"""Which drafted tokens are worth verifying."""

import random

import torch
from hypothesis import given
from hypothesis import strategies as st

from skipstone.accept import Pick
from skipstone.draft.worth import Worth
from skipstone.search.exit_prices import At, ExitPrices, Heads
from skipstone.search.exit_sights import ExitSights
from skipstone.search.pricing import Uniform


def knowing() -> ExitSights:
    """An exit whose choices are right as often as it says, the second ones too."""
    sights, rng = ExitSights(), random.Random(0)
    for _ in range(2000):
        first = rng.random()
        second = (1 - first) * rng.random()
        drawn = rng.random()
        sights.see([first, second], 0 if drawn < first else 1 if drawn < first + second else None)
    return sights


KNOWING = knowing()


def pick(*probabilities: float) -> Pick:
    rest = 1 - sum(probabilities)
    return Pick(list(range(len(probabilities))), torch.tensor([*probabilities, rest]).log())


def flat(layers: int = 12, exit_layer: int = 3) -> ExitPrices:
    return At(1, 0, 17).prices(Uniform(layers), layers, exit_layer, Heads({True: 0.0}))


def drafted(picks: list[Pick], prices: ExitPrices, most: int = 17) -> tuple[int, tuple[int, ...]]:
    """Tokens looked at, and the widths kept."""
    worth = Worth(KNOWING, prices, 1.2 / prices.plain, [99], most)
    seen: list[list[Pick]] = []
    for each in picks:
        seen.append([each])
        if worth(seen):
            break
    return len(seen), worth.widths()


def test_sure_tokens_are_drafted_on_and_a_doubtful_one_is_dropped():
    looked, widths = drafted([pick(0.95), pick(0.95), pick(0.06), pick(0.95)], flat())
    assert looked == 3
    assert widths == (1, 1)


def test_a_first_token_that_is_not_worth_its_pass_leaves_plain_decoding():
    assert drafted([pick(0.06)], flat()) == (1, ())


def test_where_one_choice_is_doubtful_several_share_a_pass():
    looked, widths = drafted([pick(0.26, 0.24, 0.2, 0.1)], flat())
    assert looked == 1
    assert len(widths) == 1
    assert widths[0] >= 3


def test_a_second_choice_of_an_earlier_token_shares_the_pass_of_the_last_one():
    _, widths = drafted([pick(0.55, 0.4), pick(0.5)], flat())
    assert widths == (2, 1)


def test_no_more_nodes_than_there_is_room_for():
    _, widths = drafted([pick(0.99, 0.005)] * 9, flat(), most=4)
    assert 1 + sum(widths) <= 4


@given(st.lists(st.lists(st.floats(0.01, 1), min_size=1, max_size=4), min_size=1, max_size=8), st.integers(1, 17))
def test_widths_are_a_comb_of_what_was_looked_at(weights: list[list[float]], most: int):
    picks = [pick(*sorted((w / (sum(ws) + 0.1) for w in ws), reverse=True)) for ws in weights]
    looked, widths = drafted(picks, flat(), most)
    assert looked - 1 <= len(widths) <= looked
    assert all(1 <= width <= len(each) for width, each in zip(widths, weights, strict=False))
    assert 1 + sum(widths) <= max(most, looked)
