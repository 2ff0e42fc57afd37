"""Several processes, as torchrun starts them: what is learnt does not depend on how many there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_folder import tiny_folder

from skipstone.train.recipe import Recipe
from skipstone.train.result import Trained
from skipstone.train.run import train

PROGRAM = """
import json, sys
from pathlib import Path
from skipstone.train.recipe import Recipe
from skipstone.train.run import train

trained = train(Recipe.of(json.loads(sys.argv[1])), Path(sys.argv[2]))
if trained.first_process:
    trained.save(Path(sys.argv[3]))
"""


def _losses(trained: Trained) -> list[float]:
    return [entry["loss"] for entry in trained.report()["log"]]


def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    (tmp_path / "result").mkdir()
    folder = tiny_folder(tmp_path / "tiny")
    (tmp_path / "text.txt").write_text("the cat and the hat in the bin and a man " * 40)
    recipe = {
        **{"model": "tiny", "data": str(tmp_path / "text.txt"), "output": str(tmp_path / "one"), "device": "cpu"},
        **{"steps": 3, "length": 32, "batch": 2, "accumulation": 2, "p_max": 0, "log_every": 1, "learning_rate": 0.01},
    }
    alone = _losses(train(Recipe.of(recipe), folder))
    (tmp_path / "run.py").write_text(PROGRAM)
    shared = json.dumps({**recipe, "output": str(tmp_path / "two"), "accumulation": 1})
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, tmp_path / "run.py", shared, folder, tmp_path / "result"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    log = json.loads((tmp_path / "result" / "training.json").read_text())["log"]
    assert [entry["loss"] for entry in log] == pytest.approx(alone, rel=1e-4)
