"""What is not measured lies between what is, or beyond it on the last slope."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipstone.curve import Curve, Surface
from skipstone.errors import UsageError

VALUES = st.floats(0, 1e6)
POINTS = st.floats(0, 1e5)


@st.composite
def rising_curves(draw):
    at = sorted(draw(st.sets(st.integers(0, 4096), min_size=1, max_size=8)))
    values = sorted(draw(st.lists(VALUES, min_size=len(at), max_size=len(at))))
    return Curve(tuple(at), tuple(values))


@given(rising_curves(), POINTS, POINTS)
def test_a_curve_through_rising_points_never_falls(curve, a, b):
    low, high = sorted((a, b))
    assert curve(low) <= curve(high) * (1 + 1e-9) + 1e-9


@given(rising_curves())
def test_a_curve_goes_through_its_points(curve):
    assert [curve(x) for x in curve.at] == pytest.approx(list(curve.values), rel=1e-6, abs=1e-6)


def test_between_points_a_curve_is_straight_and_beyond_the_last_it_goes_on():
    curve = Curve((1, 3, 5), (1.0, 2.0, 6.0))
    assert [curve(x) for x in (0, 1, 2, 3, 4, 5, 7)] == [1.0, 1.0, 1.5, 2.0, 4.0, 6.0, 10.0]


def test_a_curve_that_falls_at_its_end_stays_there():
    assert Curve((1, 2), (3.0, 1.0))(100) == 1.0


def test_a_surface_is_straight_both_ways_whatever_points_its_curves_have():
    surface = Surface((1, 3), (Curve((0,), (2.0,)), Curve((0, 10), (4.0, 14.0))))
    assert surface(1, 5) == 2.0
    assert surface(3, 5) == 9.0
    assert surface(2, 5) == 5.5


@pytest.mark.parametrize(
    ("at", "values", "why"),
    [
        ((), (), "1 or more points"),
        ((1, 2), (1.0,), "2 points has 1 values"),
        ((2, 1), (1.0, 1.0), "sort"),
        ((1, 1), (1.0, 1.0), "each once"),
        ((1,), (float("nan"),), "finite"),
        ((1,), (-1.0,), "0 or more"),
    ],
)
def test_points_that_make_no_curve_are_refused(at, values, why):
    with pytest.raises(UsageError, match=why):
        Curve(at, values)
