"""Choices by confidence."""

import pytest
import torch

from skipstone.accept import Pick
from skipstone.draft.bands import Bands
from skipstone.errors import UsageError


def _pick(confidence: float) -> Pick:
    return Pick([0], torch.tensor([confidence, 1 - confidence], dtype=torch.float64).log())


@pytest.mark.parametrize(
    ("confidence", "width"),
    [(0.01, 10), (0.49, 10), (0.51, 5), (0.79, 5), (0.81, 3), (0.94, 3), (0.96, 1), (1.0, 1)],
)
def test_the_surer_the_draft_the_fewer_choices_are_kept(confidence: float, width: int):
    assert Bands()(_pick(confidence)) == width


def test_an_edge_belongs_to_the_band_below_it():
    assert Bands((4, 2), (0.5,))(_pick(0.5)) == 4


def test_bands_are_written_with_plus_signs_or_off():
    assert Bands.read("10+5+3+1", "0.5+0.8+0.95") == Bands()
    assert Bands.read("3", "") == Bands((3,), ())
    assert Bands.read("off", "whatever") is None


@pytest.mark.parametrize(
    ("widths", "edges"),
    [
        ("", ""),
        ("10,5", "0.5"),
        ("10+x", "0.5"),
        ("10+5", "half"),
        ("10+5", ""),
        ("10", "0.5"),
        ("10+0", "0.5"),
        ("3+2+1", "0.8+0.5"),
        ("3+2", "0"),
        ("3+2", "1"),
        ("3+2", "nan"),
    ],
)
def test_what_are_no_bands_is_refused(widths: str, edges: str):
    with pytest.raises(UsageError, match="bands"):
        Bands.read(widths, edges)
