"""What a run keeps until its result is written: recipe, figures at the start, log, checkpoints."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from transformers import TrainerCallback

from ..errors import CheckpointError, TrainingError, UsageError
from ..hf.reason import reason
from .evaluate import Figures
from .recipe import Recipe
from .sharded import finite

_WHOLE = "complete"  # written last: a checkpoint without it was killed while it was written

_LOG, _RECIPE = "log.jsonl", "recipe.json"
_OURS = ("facts.json", "before.json")  # files of names that few others have
_ALL = tuple(name for each in (_LOG, _RECIPE, *_OURS) for name in (each, f".{each}.part"))

# what may differ between a run and its continuation: none of it changes the weights
_FREE = ("save_every", "log_every", "output", "model", "stored")


@dataclass(frozen=True)
class RunFolder:
    path: Path

    @classmethod
    def beside(cls, output: Path) -> RunFolder:
        return cls(output.with_name(f"{output.name}.run"))

    @property
    def log(self) -> Path:
        return self.path / _LOG

    @contextmanager
    def held(self) -> Iterator[None]:
        """With the lock of this run, which the system drops if the process dies.

        Raises UsageError where another run has it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.with_name(f".{self.path.name}.lock")
        lock = FileLock(file)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if not file.exists():  # some places refuse new files as if another held them
                raise UsageError(f"{self.path} cannot be written: choose another output") from None
            raise UsageError(f"{self.path} belongs to a run under way: wait for it, or choose another output") from None
        try:
            yield
        finally:
            lock.release()

    def open(self, recipe: Recipe, facts: Mapping[str, Any], resume: bool) -> Path | None:
        """The checkpoint to go on from; None for the beginning, in a new folder: without a checkpoint nothing is lost.

        ``facts`` are what the recipe names alone: the model's weights, the rows of data, the number of processes.
        Raises UsageError where there is a run already that is not to be resumed, or is one of another recipe.
        """
        if self.last() is None:
            self._check_ours()
            self._begin(recipe, facts)
            return None
        if not resume:
            raise UsageError(
                f"{self.path} holds a run that did not end: go on with it by --resume, or remove that folder"
            )
        self._check_same(recipe)
        self._check_facts(facts)
        self._read("before.json", needed=True)  # what was trained cannot tell how it began
        self.before()
        found = self._clean()
        if found is not None and (lost := _lost(found)):
            raise self.damaged(found, f"{lost} is missing, or is not as it was written")
        return found

    def damaged(self, checkpoint: Path, why: str) -> CheckpointError:
        """``checkpoint`` is whole by its mark and cannot be read."""
        before = self.last(before=_step(checkpoint))
        told = f"go on from {before.name}" if before else "begin at step 0"
        return CheckpointError(f"{checkpoint} is damaged ({why}): remove that folder to {told}")

    def _read(self, name: str, needed: bool = False) -> dict[str, Any]:
        """A file of ours; empty where it is not there. Raises CheckpointError for a damaged one."""
        file = self.path / name
        if not (needed or file.is_file()):
            return {}
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise self._unreadable(file, reason(error)) from error
        if not isinstance(content, dict):
            raise self._unreadable(file, "it is no object")
        return content

    def _unreadable(self, file: Path, why: str) -> CheckpointError:
        return CheckpointError(f"{file} is damaged ({why}): remove {self.path} to begin anew")

    def last(self, before: float = math.inf) -> Path | None:
        """The newest checkpoint that is whole, of those from before a step."""
        whole = (path for path in self._checkpoints() if (path / _WHOLE).exists() and _step(path) < before)
        return max(whole, key=_step, default=None)

    def keep(self, before: Figures, seconds: float) -> None:
        """``seconds`` is what it took to find them."""
        write(self.path / "before.json", {**before.to_json(choices=True), "seconds": seconds})

    def before(self, layers: int | None = None) -> Figures | None:
        """Raises CheckpointError where they are damaged, or not those of all exits of a model of ``layers``."""
        told = self._read("before.json")
        try:
            found = Figures.from_json(told) if told else None
            float(told.get("seconds", 0.0))
            if found and layers is not None and found.exits[-1].exit != layers:
                raise ValueError(f"it ends with exit {found.exits[-1].exit} of {layers} layers")
            return found
        except (KeyError, TypeError, ValueError) as error:
            raise self._unreadable(self.path / "before.json", reason(error)) from error

    def evaluation_seconds(self) -> float:
        """What the figures at the start took, which those at the end will take again; 0 where it is not known."""
        return float(self._read("before.json").get("seconds", 0.0))

    def remove(self) -> None:
        """What is ours, first what makes it a run; the folder itself stays if others keep files in it."""
        checkpoints = list(self._checkpoints())
        for path in checkpoints:
            (path / _WHOLE).unlink(missing_ok=True)
        for path in checkpoints:
            shutil.rmtree(path, ignore_errors=True)
        for name in _ALL:
            (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):  # not empty, or a link
            self.path.rmdir()

    def _begin(self, recipe: Recipe, facts: Mapping[str, Any]) -> None:
        self.remove()
        self.path.mkdir(parents=True, exist_ok=True)
        write(self.path / _RECIPE, recipe.to_json())
        write(self.path / "facts.json", facts)

    def _check_ours(self) -> None:
        """Files under our names may be another program's, and are not to be lost: few have those of ``_OURS``."""
        if not self.path.is_dir():
            if self.path.exists() or self.path.is_symlink():
                raise UsageError(
                    f"{self.path} is no folder, where checkpoints are to lie: move it, or choose another output"
                )
            return
        if any((self.path / name).exists() for name in _OURS):
            return
        found = next((path for path in (*self._checkpoints(), *self._others()) if path.exists()), None)
        if found is not None:
            raise UsageError(f"{found} is not of this program: choose another output, or move it away")

    def _others(self) -> tuple[Path, ...]:
        """A recipe that is none of ours, and a log without one: a run of ours keeps its recipe as long as its log."""
        try:
            ours = "learning_rate" in self._read(_RECIPE)
        except CheckpointError:
            ours = False
        return () if ours else (self.path / _RECIPE, self.log)

    def _checkpoints(self) -> Iterator[Path]:
        return (path for path in self.path.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name))

    def _clean(self) -> Path | None:
        """Without what is not whole, and the log without what came after the last checkpoint."""
        for path in self._checkpoints():
            if not (path / _WHOLE).exists():
                shutil.rmtree(path)
        last = self.last()
        if self.log.is_file():
            step = 0 if last is None else _step(last)
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            entries = [line for line in lines if _logged(line) <= step]
            _replace(self.log, "".join(f"{line}\n" for line in entries))
        return last

    def _check_same(self, recipe: Recipe) -> None:
        before, now = (
            json.loads(json.dumps(each))  # tuples are lists there
            for each in ({**_defaults(), **self._read(_RECIPE, needed=True)}, recipe.to_json())
        )
        for name, value in now.items():
            if name not in _FREE and before.get(name) != value:
                raise UsageError(
                    f"{name} is {value} and was {before.get(name)} in the run of {self.path}: resume with the same "
                    "recipe, or remove that folder to begin anew"
                )

    def _check_facts(self, facts: Mapping[str, Any]) -> None:
        for name, value in self._read("facts.json", needed=True).items():
            if facts.get(name) != value:
                raise UsageError(
                    f"{name}: not what the run of {self.path} began with: resume with the same, or remove that folder "
                    "to begin anew"
                )


class Keeper(TrainerCallback):
    """Marks checkpoints as whole once everything in them has reached the disk, and writes the log."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        from accelerate import PartialState

        PartialState().wait_for_everyone()  # other ranks write parts of their own
        if not finite(kwargs["model"].parameters(), args.device):  # what is no good state is not kept as one
            raise TrainingError(
                f"weights after step {state.global_step} are not finite: begin anew with a lower learning rate and "
                "another output"
            )
        if state.is_world_process_zero:
            mark_whole(self._folder.path / f"checkpoint-{state.global_step}")

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        if state.is_world_process_zero and logs and "loss" in logs:
            with self._folder.log.open("a") as file:
                file.write(json.dumps({"step": state.global_step, **logs}) + "\n")


def mark_whole(checkpoint: Path) -> None:
    """The mark names every file with its size in bytes, by which damage is seen before it does any."""
    files = [path for path in sorted(checkpoint.rglob("*")) if path.is_file() and path.name != _WHOLE]
    for path in files:
        _sync(path)
    write(checkpoint / _WHOLE, {path.relative_to(checkpoint).as_posix(): path.stat().st_size for path in files})


def _lost(checkpoint: Path) -> str:
    """The first file that is not as it was marked; "" where all are. The marks of earlier versions are empty."""
    try:
        sizes = json.loads((checkpoint / _WHOLE).read_text() or "{}")
    except ValueError:
        return _WHOLE
    found = {name: checkpoint / name for name in sizes}
    return next((name for name, file in found.items() if not file.is_file() or file.stat().st_size != sizes[name]), "")


def _defaults() -> dict[str, Any]:
    """Of settings that a recipe of an earlier version did not have."""
    return {each.name: each.default for each in fields(Recipe) if each.default is not MISSING}


def write(file: Path, value: object) -> None:
    """The old content or the new, never a part."""
    _replace(file, json.dumps(value, indent=1) + "\n")


def _replace(file: Path, text: str) -> None:
    part = file.with_name(f".{file.name}.part")
    part.write_text(text)
    _sync(part)
    os.replace(part, file)


def _sync(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _logged(line: str) -> float:
    """The step of a line; a line that was cut off belongs to none."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")
