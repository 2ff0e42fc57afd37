"""The prepared GPU check runs, as far as it can without a GPU."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "bench" / "gpu_check.py"


def check(out: Path, *arguments: str) -> tuple[int, dict]:
    small = ["--device", "cpu", "--size", "tiny", "--tokens", "12", "--prompt", "5", "--rounds", "1", "--lengths", "20"]
    done = subprocess.run([sys.executable, str(SCRIPT), *small, "--out", str(out), *arguments], capture_output=True)
    return done.returncode, json.loads(out.read_text())


def test_every_arm_says_the_same(tmp_path: Path):
    code, parts = check(tmp_path / "found.json", "--dtype", "float32")
    assert code == 0, parts
    assert list(parts) == ["versions", "model", "equal", "steps", "exit", "skip"]
    for form in ("exit", "skip"):
        assert [arm["equal"] for arm in parts[form]["arms"]] == ["yes"] * 5
        assert parts[form]["arms"][-1]["M"] > 4
        assert parts[form]["notes"] == []


def test_a_part_that_fails_leaves_the_others(tmp_path: Path):
    code, parts = check(tmp_path / "found.json", "--parts", "equal", "versions")
    assert code == 1
    assert "no model" in parts["equal"]["error"]
    assert parts["versions"]["bandwidth"] > 0
