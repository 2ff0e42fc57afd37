"""When to stop drafting."""

import math

import pytest
import torch

from skipstone.accept import Pick
from skipstone.draft.confidence import BelowThreshold, WhileItPays
from skipstone.search.calibration import Calibration


def _pick(confidence: float) -> Pick:
    """Two tokens, the first of them of this probability."""
    return Pick([0], torch.tensor([confidence, 1 - confidence]).log())


def test_drafting_stops_once_every_row_has_been_unsure_at_whatever_depth():
    stop = BelowThreshold(0.8)
    picks = [[_pick(0.1), _pick(0.9)]]
    assert not stop(picks)
    picks.append([_pick(0.9), _pick(0.8)])
    assert not stop(picks)
    picks.append([_pick(0.2), _pick(0.79)])
    assert stop(picks)
    assert stop.ends == {0: 1, 1: 3}


def test_where_nothing_is_allowed_the_draft_is_not_sure_at_all():
    nothing = Pick([0], torch.full((4,), -math.inf))
    assert nothing.confidence == 0
    assert Calibration().chance(nothing.confidence, usual=0.5) == pytest.approx(0.5)


def test_confidences_count_as_they_proved():
    calibration = Calibration()
    assert calibration.chance(0.35, usual=0.7) == pytest.approx(0.7)
    for _ in range(200):
        calibration.observe([0.35, 0.95], accepted=0)
    assert calibration.chance(0.35, usual=0.7) < 0.1
    assert calibration.chance(0.95, usual=0.7) == pytest.approx(0.7)  # behind a wrong token nothing is known


def test_drafting_goes_on_while_a_token_is_worth_its_time():
    def stops(confidences: list[float], ms: float) -> int:
        calibration = Calibration()
        for _ in range(100):  # drafts are as sure as they should be
            for k in range(10):
                calibration.observe([k / 10 + 0.05], accepted=int(_ % 10 < k))
        stop = WhileItPays(calibration, 1, acceptance=0.9, ms=ms, rate=0.1)
        picks: list[list[Pick]] = []
        for confidence in confidences:
            picks.append([_pick(confidence)])
            if stop(picks):
                break
        return len(picks)

    assert stops([0.95] * 9, ms=1.0) == 9
    assert stops([0.95, 0.15, 0.95], ms=4.0) == 2
    assert stops([0.95] * 9, ms=8.5) < 9
