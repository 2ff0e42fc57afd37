"""Several processes, as torchrun starts them: what is learnt does not depend on how many there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_folder import tiny_folder

PROGRAM = "import sys; from skipstone.cli.main import main; sys.exit(main(sys.argv[1:]))"


def _losses(folder: Path, processes: int, *options: object) -> list[float]:
    (folder / "run.py").write_text(PROGRAM)
    given = ["train", folder / "tiny", "--data", folder / "text.txt", "--output", folder / f"out{processes}"]
    fixed = ["--steps", 3, "--length", 32, "--device", "cpu", "--log-every", 1, "--learning-rate", 0.01]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes]
    command = [*torchrun, folder / "run.py", *given, *fixed, *options]
    done = subprocess.run(
        [str(word) for word in command], env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    log = (folder / f"out{processes}" / "training_log.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in log]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_folder(tmp_path / "tiny")
    (tmp_path / "text.txt").write_text("the cat and the hat in the bin and a man " * 40)
    return tmp_path


def test_two_processes_learn_what_one_does(folder: Path) -> None:
    one = _losses(folder, 1, "--batch", 2, "--accumulation", 2, "--p-max", 0)
    two = _losses(folder, 2, "--batch", 2, "--accumulation", 1, "--p-max", 0)
    assert len(one) == 3
    assert two == pytest.approx(one, rel=1e-4)
