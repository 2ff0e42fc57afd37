"""Plans on disk: a file for each model, by its fingerprint, with the skip plan and the exit preset of each task."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import StoreError, UsageError, did_you_mean
from .atomic import disk_errors, locked, set_aside, write_json
from .entry import check_label, mapping, text, whole
from .kept_exit import KeptExit
from .kept_plan import KeptPlan

FORMAT = 1
_MOST_LAYERS = 10_000


class NewerPlans(StoreError):
    """A plan file that only a newer version of Skipstone can read."""


@dataclass(frozen=True)
class ModelPlans:
    """What is kept of one model by task: skip plans (``tasks``), and exit presets (``exits``).

    ``model`` is what it was called when something was kept last: for readers only.
    """

    fingerprint: str
    layers: int
    model: str = ""
    tasks: Mapping[str, KeptPlan] = field(default_factory=dict)
    exits: Mapping[str, KeptExit] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        """Every task that something is kept for."""
        return list(dict.fromkeys([*self.tasks, *self.exits]))

    def task(self, name: str) -> KeptPlan:
        """Raises UsageError where no skip plan is kept for it."""
        self._check(name, self.tasks, "plan", "skipstone tune")
        return self.tasks[name]

    def exit(self, name: str) -> KeptExit:
        """Raises UsageError where no exit preset is kept for it."""
        self._check(name, self.exits, "exit preset", "skipstone sweep")
        return self.exits[name]

    def _check(self, name: str, kept: Iterable[str], what: str, finds: str) -> None:
        if name in kept:
            return
        if not kept:
            raise UsageError(f"no {what} of {self.model or 'this model'} is kept: {finds} finds one")
        raise UsageError(f'no {what} is kept for task "{name}": {did_you_mean(name, map(shown, kept))}')

    def with_plans(self, more: ModelPlans) -> ModelPlans:
        """What ``more`` holds takes the place of what was kept for the same task."""
        return replace(self, tasks={**self.tasks, **more.tasks}, exits={**self.exits, **more.exits})

    def only(self, name: str) -> ModelPlans:
        """What is kept for one task. Raises UsageError where nothing is."""
        self._check(name, self.labels, "plan", "skipstone tune or sweep")
        return self._where(lambda label: label == name)

    def without(self, name: str) -> ModelPlans:
        """Raises UsageError where nothing is kept for the task."""
        self._check(name, self.labels, "plan", "skipstone tune or sweep")
        return self._where(lambda label: label != name)

    def _where(self, wanted: Callable[[str], bool]) -> ModelPlans:
        tasks = {label: kept for label, kept in self.tasks.items() if wanted(label)}
        exits = {label: kept for label, kept in self.exits.items() if wanted(label)}
        return replace(self, tasks=tasks, exits=exits)

    def to_json(self) -> dict[str, Any]:
        about = {"fingerprint": self.fingerprint, "layers": self.layers, "model": self.model}
        tasks = {name: kept.to_json() for name, kept in self.tasks.items()}
        exits = {name: kept.to_json() for name, kept in self.exits.items()}
        return {"format": FORMAT, **about, "tasks": tasks, "exits": exits}

    @classmethod
    def from_json(cls, entry: Any) -> ModelPlans:
        """Files of before there were exit presets have none. Raises UsageError, PlanError."""
        if not isinstance(entry, dict) or entry.get("format") != FORMAT or not isinstance(entry.get("tasks"), dict):
            raise UsageError(f"it is not a plan file of format {FORMAT}")
        layers = whole(entry, "layers")
        if not 0 < layers <= _MOST_LAYERS:
            raise UsageError(f'"layers" is {layers}: no model has so many')
        if not entry["tasks"] and not entry.get("exits"):
            raise UsageError("it holds no plan")
        tasks = {name: KeptPlan.from_json(kept, layers) for name, kept in entry["tasks"].items()}
        given = mapping(entry.get("exits", {}), '"exits"')
        exits = {name: KeptExit.from_json(kept, layers) for name, kept in given.items()}
        for label in (*tasks, *exits):
            check_label(label)
        fingerprint = text(entry, "fingerprint")
        if not _is_fingerprint(fingerprint):
            raise UsageError(f'"{fingerprint[:40]}" is no fingerprint')
        return cls(fingerprint, layers, text(entry, "model"), tasks, exits)


def _is_fingerprint(given: str) -> bool:
    return re.fullmatch("[0-9a-f]{32}", given) is not None


def shown(task: str) -> str:
    """A task's label for readers."""
    return task or "(none)"


def load_plans(folder: Path, of: ModelPlans, progress: Callable[[str], None]) -> ModelPlans | None:
    """What is kept of the model, or None. A file that cannot be used is told; a damaged one is set aside.

    ``of``: the model, with what is known of it (0 layers: nobody counted them).
    """
    path = plans_file(folder, of.fingerprint)
    try:
        return _plans_of(path, of)
    except NewerPlans as error:
        progress(str(error))
    except OSError as error:
        progress(_unusable(path, error))
    except UsageError as error:
        return _load_again(path, of, progress, error)
    return None


def _load_again(path: Path, of: ModelPlans, progress: Callable[[str], None], damage: UsageError) -> ModelPlans | None:
    """With the lock: another process may have put a sound file in the place of a damaged one."""
    try:
        with disk_errors(path), locked(path, progress):
            return _load(path, of, progress)
    except NewerPlans as error:
        progress(str(error))
    except StoreError as error:
        progress(f"{_unusable(path, damage)}; it stays where it is, as it cannot be locked ({error})")
    return None


def _load(path: Path, of: ModelPlans, progress: Callable[[str], None]) -> ModelPlans | None:
    """For who holds the lock of the file. Raises NewerPlans."""
    try:
        return _plans_of(path, of)
    except OSError as error:  # the plans may be whole
        progress(_unusable(path, error))
    except UsageError as error:
        progress(f"{_unusable(path, error)}; {_discarded(path)}")
    return None


def _plans_of(path: Path, of: ModelPlans) -> ModelPlans | None:
    """None where there is no file. Raises OSError, UsageError, PlanError and NewerPlans."""
    try:
        plans = read_plans(path)
    except FileNotFoundError:
        return None
    if plans.fingerprint != of.fingerprint:
        raise UsageError(f"its plans are of another model, {plans.fingerprint}")
    if of.layers and plans.layers != of.layers:
        raise UsageError(f"its plans are for {plans.layers} layers, but the model has {of.layers}")
    return plans


def _unusable(path: Path, error: Exception) -> str:
    return f"{path}: kept plans cannot be used ({error})"


def read_plans(path: Path) -> ModelPlans:
    """The plans in a file. Raises OSError, UsageError, PlanError and NewerPlans."""
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is no ordinary file")  # reading a pipe would never end
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
    """What is kept of every model, by name. Raises StoreError where the folder cannot be read.

    Files that are not called by a fingerprint are somebody else's.
    """
    with disk_errors(folder):
        names = sorted(path.stem for path in map(Path, _listed(folder)) if path.suffix == ".json")
    found = (load_plans(folder, ModelPlans(name, 0), progress) for name in names if _is_fingerprint(name))
    return sorted((plans for plans in found if plans is not None), key=lambda plans: (plans.model, plans.fingerprint))


def _listed(folder: Path) -> list[str]:
    """Raises NotADirectoryError where something else bears its name, or that of a folder around it."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def change_plans(
    folder: Path, empty: ModelPlans, change: Callable[[ModelPlans], ModelPlans], progress: Callable[[str], None]
) -> ModelPlans:
    """Read, change and write the plans of the model of ``empty`` while no other process does; without tasks they go.

    What did not change is not written.

    Raises StoreError where the disk is full or cannot be written, or a newer version keeps the model's plans, and what
    ``change`` raises.
    """
    path = plans_file(folder, empty.fingerprint)
    with disk_errors(path), locked(path, progress):
        before = _load(path, empty, progress)
        changed = change(before or empty)
        if changed.labels and changed != before:
            write_json(path, changed.to_json())
        elif not changed.labels:
            path.unlink(missing_ok=True)
    return changed


def plans_file(folder: Path, fingerprint: str) -> Path:
    return folder / f"{fingerprint}.json"


def _discarded(path: Path) -> str:
    """Where the file is now."""
    try:
        return f"set aside as {set_aside(path)}"
    except OSError as error:
        return f"it cannot be set aside ({error.strerror})"
