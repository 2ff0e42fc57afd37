"""What ``skipstone train`` was asked for, checked and carried out."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import StoreError, UsageError
from ..store import known_aliases
from ..store.atomic import building, disk_errors, locked
from ..text.locate import locate
from ..text.progress import to_stderr
from ..train.card import USEFUL
from ..train.recipe import Recipe
from ..train.recipe_file import read_recipe_file
from ..train.result import Base, Trained
from ..train.run import training
from ..train.run_folder import RunFolder
from ..train.watch import Watch
from .loading import interruptible
from .memory_kept import MemoryKept
from .training_bar import TrainingBar


@dataclass(frozen=True)
class Training:
    recipe: Recipe
    resume: bool

    @classmethod
    def of(cls, file: Path | None, flags: Mapping[str, Any], resume: bool) -> Training:
        """Raises UsageError for what cannot work whatever the model."""
        given = {} if file is None else read_recipe_file(file)
        return cls(Recipe.of({**given, **flags}), resume)

    @property
    def output(self) -> Path:
        return Path(self.recipe.output).expanduser()

    def run(self, cache: Path | None, offline: bool) -> Trained:
        """Train, and write the folder: complete, or not at all."""
        self._check_output()
        with interruptible():
            folder = locate(self.recipe.model, cache=cache, progress=to_stderr, offline=offline)
        with disk_errors(self.output, option="--output"):
            return self._written(folder, offline)

    def _written(self, folder: Path, offline: bool) -> Trained:
        how: dict[str, Any] = {"base": self._base(), "resume": self.resume, "offline": offline}
        try:
            with TrainingBar(self.recipe.steps) as bar:
                how["watch"] = Watch(to_stderr, [bar, MemoryKept()], bar.evaluation)
                with training(self.recipe, folder, **how) as trained:
                    if trained.first_process:
                        self._write(trained)
            return trained
        except KeyboardInterrupt:
            if RunFolder.beside(self.output).last() is not None:
                to_stderr("stopped: the same command with --resume goes on from the last checkpoint")
            raise

    def _check_output(self) -> None:
        """Before hours of training, not after."""
        try:
            if self.output.exists() or self.output.is_symlink():  # one that leads nowhere too
                ended = "is the result of a run that ended" if self.resume else "exists"
                raise UsageError(f"{self.output} {ended}: choose another --output, or remove it")
            self.output.absolute().parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.output} cannot be written: {error.strerror}; choose another --output") from error

    def _base(self) -> Base | None:
        """A hub id stays one in an adapter's config, a short name has one; None: a folder, named by where it lies."""
        name = self.recipe.model
        if Path(name).expanduser().exists():
            return None
        hub_ids = {alias.name: alias.hub_id for alias in known_aliases()}
        if name in hub_ids:
            return Base(hub_ids[name], name)
        return Base(name) if "/" in name else None

    def _write(self, trained: Trained) -> None:
        place = RunFolder.beside(self.output)
        with locked(self.output, to_stderr), building(self.output) as folder:
            trained.save(folder)
            if place.log.is_file():
                shutil.copy(place.log, folder / "training_log.jsonl")
        place.remove()
        to_stderr(f"written to {self.output}")
        for exit_layer in trained.exits:
            if (agreement := trained.after.at(exit_layer).agreement) < USEFUL:
                to_stderr(
                    f"exit {exit_layer} chooses as the last layer does for {agreement:.0%} of the tokens, which drafts "
                    "too seldom right to pay: train longer, or with a higher learning rate (docs/training.md)"
                )
