"""``skipstone demo`` on a tiny model: its tables, and what it leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Run, assert_says
from folders import change, copy
from tiny_folder import tiny_folder

from skipstone.bench.demo import Arm, too_fast
from skipstone.cli import demo
from skipstone.telemetry import StepRecord, Summary, Timing


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a context that the prompts fit in."""
    return tiny_folder(tmp_path_factory.mktemp("models") / "roomy", context=1024)


def test_a_trained_checkpoint_drafts_with_its_exit_beside_plain_decoding_of_its_weights(
    run: Run, roomy: Path, tmp_path: Path
) -> None:
    trained = copy(roomy, tmp_path / "trained")
    change(trained / "config.json", skipstone_exits=[3])
    result = run("demo", roomy, "--layerskip", trained)
    assert result.code == 0, result.err
    first, maths, second = result.out.partition("maths  ")  # where the second table begins
    assert_says(first, r"copy +transformers generate")
    assert_says(first, r"exit:layer=2,depth=2 .*yes")
    assert_says(maths + second, r"maths +transformers generate")
    assert_says(second, r"none \(plain decoding\) .* 1\.00 ")
    assert_says(second, r"exit:layer=3,depth=1 .*yes")
    assert_says(second, r"exit  .*yes")
    assert_says(second, r"story ")


def test_a_checkpoint_that_is_not_there_is_left_out_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert demo._trained(None, None, offline=True) == []
    assert_says(capsys.readouterr().err, r"left out: the model trained for early exits \(there is no checkpoints/")


def test_a_checkpoint_that_was_asked_for_must_be_there(run: Run, roomy: Path, tmp_path: Path) -> None:
    result = run("demo", roomy, "--layerskip", tmp_path / "nothing", "--offline")
    assert result.code == 1
    assert_says(result.err, "no model")


@pytest.mark.parametrize(("seconds", "told"), [(0.9, False), (0.1, True)])
def test_a_speed_up_beyond_what_its_tokens_allow_is_called_a_disturbance(seconds: float, told: bool) -> None:
    summary = Summary()
    summary.record(StepRecord(0, 1, 1, 1, 0, 2, Timing()))  # M is 2
    plain = Arm("chat", "none", [1, 2, 3], 1.0, "yes")
    assert too_fast(Arm("chat", "ngram", [1, 2, 3], seconds, "yes", summary), plain) == told
