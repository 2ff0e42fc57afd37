"""The figures everybody quotes."""

from dataclasses import replace

import pytest

from skipstone.telemetry import StepRecord, Summary, Timing

HALF = StepRecord(0, nodes=6, drafted=4, accepted=2, rescued=0, emitted=3, timing=Timing(0.1, 0.2, 0.0, 0.3, 0.4))
RESCUE = StepRecord(1, nodes=4, drafted=2, accepted=0, rescued=1, emitted=2, timing=Timing(0.1, 0.1))
NOTHING = StepRecord(1, nodes=0, drafted=0, accepted=0, rescued=0, emitted=1, timing=Timing())


def _summary(*records: StepRecord) -> Summary:
    summary = Summary()
    for record in records:
        summary.record(record)
    return summary


def test_figures_are_ratios_of_sums():
    summary = _summary(HALF, RESCUE, NOTHING)
    assert summary.mean_accepted_length == 6 / 3
    assert summary.acceptance_rate == 2 / 6
    assert summary.acceptance_by_depth == [1 / 2, 1 / 2, 0, 0]
    assert dict(summary.accepted_histogram) == {2: 1, 1: 1, 0: 1}
    assert summary.nodes == 10


def test_what_is_known_of_a_draft_ends_with_its_first_wrong_token():
    assert (HALF.right, HALF.judged) == (2, 3)
    assert (RESCUE.right, RESCUE.judged) == (0, 1)
    assert (NOTHING.right, NOTHING.judged) == (0, 0)
    assert [(each.right, each.judged) for each in [replace(HALF, ends=1)]] == [(3, 3)]


def test_nothing_drafted_accepts_nothing():
    assert Summary().mean_accepted_length == 0
    assert _summary(NOTHING).acceptance_rate == 0
    assert _summary(NOTHING).acceptance_by_depth == []


def test_decoding_time_leaves_out_the_prefill():
    summary = _summary(HALF, RESCUE)
    assert summary.timing.total_s == pytest.approx(1.2)
    assert summary.decode_s == pytest.approx(0.8)


def test_merged_summaries_are_the_summary_of_all():
    merged = _summary(HALF)
    merged.merge(_summary(RESCUE, NOTHING))
    assert merged == _summary(HALF, RESCUE, NOTHING)


def test_one_lossy_record_makes_the_whole_summary_lossy():
    early, earlier = (replace(HALF, lossy=f"early exit at layer {layer} of 30") for layer in (8, 4))
    assert _summary(HALF, RESCUE).lossy == ""
    summary = _summary(HALF, early, early)
    assert summary.lossy == "early exit at layer 8 of 30"
    merged = _summary(HALF)
    merged.merge(summary)
    merged.merge(_summary(RESCUE))
    assert merged.lossy == "early exit at layer 8 of 30"
    merged.merge(_summary(earlier))
    assert merged.lossy == "early exit at layer 8 of 30; early exit at layer 4 of 30"
