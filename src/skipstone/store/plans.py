"""Plans on disk: a file for each model, by its fingerprint, with the plan of each task."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import StoreError, UsageError, did_you_mean
from .atomic import disk_errors, locked, set_aside, write_json
from .kept_plan import KeptPlan, text, whole

FORMAT = 1


class NewerPlans(StoreError):
    """A plan file that only a newer version of Skipstone can read."""


@dataclass(frozen=True)
class ModelPlans:
    """The plans of one model by task. ``model`` is what it was called when one was kept last: for readers only."""

    fingerprint: str
    layers: int
    model: str = ""
    tasks: Mapping[str, KeptPlan] = field(default_factory=dict)

    def task(self, name: str) -> KeptPlan:
        """Raises UsageError where no plan is kept for it."""
        if name in self.tasks:
            return self.tasks[name]
        if not self.tasks:
            raise UsageError(f"no plan of {self.model or 'this model'} is kept: skipstone tune finds one")
        raise UsageError(f'no plan is kept for task "{name}": {did_you_mean(name, map(shown, self.tasks))}')

    def with_plans(self, tasks: Mapping[str, KeptPlan]) -> ModelPlans:
        return replace(self, tasks={**self.tasks, **tasks})

    def only(self, name: str) -> ModelPlans:
        """Raises UsageError where no plan is kept for it."""
        return replace(self, tasks={name: self.task(name)})

    def without(self, name: str) -> ModelPlans:
        """Raises UsageError where no plan is kept for it."""
        gone = self.task(name)
        return replace(self, tasks={task: kept for task, kept in self.tasks.items() if kept is not gone})

    def to_json(self) -> dict[str, Any]:
        tasks = {name: kept.to_json() for name, kept in self.tasks.items()}
        about = {"fingerprint": self.fingerprint, "layers": self.layers, "model": self.model}
        return {"format": FORMAT, **about, "tasks": tasks}

    @classmethod
    def from_json(cls, entry: Any) -> ModelPlans:
        """Raises UsageError, PlanError."""
        if not isinstance(entry, dict) or entry.get("format") != FORMAT or not isinstance(entry.get("tasks"), dict):
            raise UsageError(f"it is not a plan file of format {FORMAT}")
        layers = whole(entry, "layers")
        tasks = {name: KeptPlan.from_json(kept, layers) for name, kept in entry["tasks"].items()}
        fingerprint = text(entry, "fingerprint")
        if not re.fullmatch("[0-9a-f]{32}", fingerprint):
            raise UsageError(f'"{fingerprint[:40]}" is no fingerprint')
        return cls(fingerprint, layers, text(entry, "model"), tasks)


def shown(task: str) -> str:
    """A task's label for readers."""
    return task or "(none)"


def load_plans(folder: Path, fingerprint: str, progress: Callable[[str], None]) -> ModelPlans | None:
    """What is kept of the model, or None. A file that cannot be used is told; a damaged one is set aside."""
    try:
        return _load(folder, fingerprint, progress)
    except NewerPlans as error:
        progress(str(error))
        return None


def _load(folder: Path, fingerprint: str, progress: Callable[[str], None]) -> ModelPlans | None:
    """Raises NewerPlans."""
    path = plans_file(folder, fingerprint)
    try:
        plans = read_plans(path)
        if plans.fingerprint != fingerprint:
            raise UsageError(f"its plans are of another model, {plans.fingerprint}")
        return plans
    except FileNotFoundError:
        return None
    except (OSError, UsageError) as error:
        progress(f"{path}: kept plans cannot be used ({error})")
        if isinstance(error, UsageError):  # else they may be whole
            _discard(path, progress)
        return None


def read_plans(path: Path) -> ModelPlans:
    """The plans in a file. Raises OSError, UsageError, PlanError and NewerPlans."""
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"it is not JSON: {error}") from error
    if (given := _format(entry)) > FORMAT:
        raise NewerPlans(
            f"{path} is of a newer version of Skipstone (format {given}, this one reads {FORMAT}): its plans are "
            "neither used nor changed, and none are kept beside them; upgrade Skipstone"
        )
    return ModelPlans.from_json(entry)


def _format(entry: Any) -> int:
    """The format that a plan file says it has; 0 where it says nothing of the kind."""
    given = entry.get("format") if isinstance(entry, dict) else None
    return given if isinstance(given, int) and not isinstance(given, bool) else 0


def all_plans(folder: Path, progress: Callable[[str], None]) -> list[ModelPlans]:
    """What is kept of every model, by name. Raises StoreError where the folder cannot be read."""
    with disk_errors(folder):
        names = sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []
    found = (load_plans(folder, name, progress) for name in names)
    return sorted((plans for plans in found if plans is not None), key=lambda plans: (plans.model, plans.fingerprint))


def change_plans(
    folder: Path, empty: ModelPlans, change: Callable[[ModelPlans], ModelPlans], progress: Callable[[str], None]
) -> ModelPlans:
    """Read, change and write the plans of the model of ``empty`` while no other process does; without tasks they go.

    Raises StoreError where the disk is full or cannot be written, or a newer version keeps the model's plans, and what
    ``change`` raises.
    """
    path = plans_file(folder, empty.fingerprint)
    with disk_errors(path), locked(path, progress):
        changed = change(_load(folder, empty.fingerprint, progress) or empty)
        if changed.tasks:
            write_json(path, changed.to_json())
        else:
            path.unlink(missing_ok=True)
    return changed


def plans_file(folder: Path, fingerprint: str) -> Path:
    return folder / f"{fingerprint}.json"


def _discard(path: Path, progress: Callable[[str], None]) -> None:
    try:
        set_aside(path)
    except OSError as error:
        progress(f"{path}: cannot be set aside ({error.strerror})")


def imported(path: Path, model: ModelPlans) -> ModelPlans:
    """The plans of a file, for the model that ``model`` names. Raises UsageError, PlanError.

    What a file promises it promises on the machines it names, so that stays as it is.
    """
    try:
        given = read_plans(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except UsageError as error:
        raise type(error)(f"{path} cannot be imported: {error}") from error
    except NewerPlans as error:
        raise UsageError(f"cannot be imported: {error}") from error
    if given.fingerprint != model.fingerprint:
        theirs = f"{given.model or 'another model'} ({given.fingerprint[:12]})"
        ours = f"{model.model} ({model.fingerprint[:12]})"
        raise UsageError(f"{path} holds plans of {theirs}, not of {ours}: plans fit the model they were found on only")
    if given.layers != model.layers:
        raise UsageError(f"{path} says that the model has {given.layers} layers, but it has {model.layers}")
    if not given.tasks:
        raise UsageError(f"{path} holds no plan")
    return given
