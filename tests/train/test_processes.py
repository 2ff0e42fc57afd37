"""Several processes, as torchrun starts them: what is learnt does not depend on how many there are, nor on FSDP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from lora import needs_peft
from safetensors.torch import load_file
from tiny_folder import tiny_folder

from skipstone.errors import UsageError
from skipstone.train.recipe import Recipe
from skipstone.train.run import train

PROGRAM = """
import json, sys
from pathlib import Path
from fsdp_on_cpus import allow_fsdp_on_cpus
from transformers import TrainerCallback
from skipstone.train.recipe import Recipe
from skipstone.train.run import train
from skipstone.train.watch import Watch

class Stop(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == int(sys.argv[4]):
            raise KeyboardInterrupt

allow_fsdp_on_cpus()
watch = Watch(callbacks=[Stop()])
trained = train(Recipe.of(json.loads(sys.argv[1])), Path(sys.argv[2]), resume=sys.argv[5] == "resume", watch=watch)
if trained.first_process:
    trained.save(Path(sys.argv[3]))
"""
pytestmark = pytest.mark.timeout(600)  # processes that each load torch, two at a time
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@dataclass(frozen=True)
class Place:
    """A folder with a model, a text and the program that trains in it."""

    path: Path

    def recipe(self, name: str, **given: Any) -> dict[str, Any]:
        small = {"length": 32, "batch": 2, "accumulation": 4, "p_max": 0, "learning_rate": 0.01, "save_every": 2}
        names = {"model": "tiny", "data": str(self.path / "text.txt"), "output": str(self.path / name)}
        return {**names, **small, "device": "cpu", "steps": 4, "log_every": 1, **given}

    def result(self, name: str) -> Path:
        folder = self.path / f"{name}-result"
        folder.mkdir(exist_ok=True)
        return folder

    def alone(self, **given: Any) -> Path:
        trained = train(Recipe.of(self.recipe("alone", **given)), self.path / "tiny")
        trained.save(self.result("alone"))
        return self.result("alone")

    def together(self, name: str, *, stop: int = 0, how: str = "begin", **given: Any) -> Path:
        """Two processes, each with half of the micro-batches of one."""
        settings = json.dumps(self.recipe(name, accumulation=2, **given))
        program = [self.path / "run.py", settings, self.path / "tiny", self.result(name), str(stop), how]
        paths = os.pathsep.join([str(Path(__file__).parent.parent / "support"), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [*TORCHRUN, *program],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) == (stop == 0), done.stderr
        return self.result(name)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    tiny_folder(tmp_path / "tiny")
    (tmp_path / "text.txt").write_text("the cat and the hat in the bin and a man " * 90)
    (tmp_path / "run.py").write_text(PROGRAM)
    return Place(tmp_path)


def _losses(folder: Path) -> list[float]:
    return [entry["loss"] for entry in json.loads((folder / "training.json").read_text())["log"]]


def _assert_same(one: Path, other: Path, weights: str = "model.safetensors") -> None:
    """Losses, what the figures come to, and weights."""
    assert _losses(one) == pytest.approx(_losses(other), rel=1e-5)
    figures = [json.loads((folder / "training.json").read_text()) for folder in (one, other)]
    for when in ("before", "after"):
        pairs = zip(*(each[when]["exits"] for each in figures), strict=True)
        assert all(a["loss"] == pytest.approx(b["loss"], rel=1e-4) for a, b in pairs)
    mine, theirs = load_file(one / weights), load_file(other / weights)
    assert sorted(mine) == sorted(theirs)
    for name, weight in mine.items():
        torch.testing.assert_close(weight, theirs[name], rtol=0, atol=1e-4)


def _spread(place: Place, name: str) -> bool:
    """FSDP's checkpoints are in parts, one of each process."""
    parts = list((place.path / f"{name}.run" / "checkpoint-2").glob("pytorch_model_fsdp_0/*.distcp"))
    return len(parts) == 2


def test_two_processes_learn_what_one_does(place: Place) -> None:
    assert _losses(place.together("two")) == pytest.approx(_losses(place.alone()), rel=1e-4)


def test_two_processes_that_share_the_weights_learn_what_one_does(place: Place) -> None:
    given = {"exits": [2, 3], "distil": 0.5}
    shared = place.together("shared", fsdp=True, **given)
    assert _spread(place, "shared")
    _assert_same(shared, place.alone(**given))


@needs_peft
def test_adapters_are_learnt_the_same_where_weights_are_shared(place: Place) -> None:
    given = {"exits": [2], "lora_rank": 2, "distil": 0.5, "steps": 2}
    shared = place.together("shared", fsdp=True, **given)
    assert _spread(place, "shared")
    _assert_same(shared, place.alone(**given), "adapter_model.safetensors")


def test_a_run_that_shares_weights_and_was_stopped_ends_as_one_without_either(place: Place) -> None:
    """With half of the batches without the last layer, and layers left out by all samples: nobody waits for anybody."""
    given = {"exits": [2], "agreement": 1, "last_every": 2, "exit_share": 0.5, "p_max": 0.8, "distil": 0.5, "batch": 1}
    place.together("shared", stop=3, fsdp=True, checkpointing=True, **given)
    assert _spread(place, "shared")
    assert not (place.path / "shared.run" / "checkpoint-4").exists()
    resumed = place.together("shared", how="resume", fsdp=True, checkpointing=True, **given)
    _assert_same(resumed, place.together("whole", **given))


def test_a_run_that_shares_weights_and_had_all_its_steps_is_evaluated_alone(place: Place) -> None:
    given = {"exits": [2], "fsdp": True, "steps": 2}
    ended = (place.together("shared", **given) / "training.json").read_text()
    resumed = (place.together("shared", how="resume", **given) / "training.json").read_text()
    assert json.loads(resumed) == json.loads(ended)


def test_weights_are_shared_by_several_processes_or_not_at_all(place: Place) -> None:
    with pytest.raises(UsageError, match=r"fsdp spreads the weights over several processes.*torchrun"):
        place.alone(fsdp=True)
