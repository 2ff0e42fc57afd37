"""How much longer cycles take than their steps should: believed slowly, and not for ever."""

from __future__ import annotations

import pytest

from skipstone.search.pace import Expected, Pace


@pytest.mark.parametrize("rows", [1, 4])
def test_a_cycle_counts_once_however_many_rows_tell_of_it(rows: int) -> None:
    pace = Pace()
    for _ in range(64):
        for _ in range(rows):
            pace.compare(15.0 / rows, Expected(10.0 / rows, 1 / rows))
    assert pace.slower == pytest.approx(1.32, abs=0.01)


def test_one_cycle_that_was_interrupted_is_hardly_noticed() -> None:
    pace = Pace()
    pace.compare(10_000.0, Expected(10.0, 1.0))
    assert pace.slower < 1.02


def test_faster_than_its_price_is_no_more_than_fast_enough() -> None:
    pace = Pace()
    pace.compare(1.0, Expected(10.0, 1.0))
    assert pace.slower == 1.0


def test_what_was_found_fades_while_nothing_is_drafted() -> None:
    pace = Pace(1.4)
    for _ in range(1024):
        pace.rest()
    assert 1.1 < pace.slower < 1.2
