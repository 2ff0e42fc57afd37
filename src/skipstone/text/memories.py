"""What drafters find out and the next ones go on from: within a process by their name, over processes as plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol
from weakref import WeakValueDictionary

from ..drafting import Drafter
from ..search.found import Found, Warm
from ..search.preset import ExitPreset
from ..search.report import SearchReport

_SPECS = 64  # drafters with other options or labels, of which one model remembers something


class Plans(Protocol):
    """Plans of the model by task, on disk or elsewhere (``store.PlanShelf``). None of these raises."""

    def get(self, task: str) -> Warm | None: ...

    def put(self, task: str, found: Found) -> None: ...

    def get_exit(self, task: str) -> ExitPreset | None: ...


@dataclass
class Memories:
    """A drafter takes part by ``memory`` and ``recall``; and in plans by ``task``, ``begin_with`` and ``found``.

    One that exits early is told by ``trained_for`` which ``exits`` the model was trained for; with a ``preset_task`` it
    is given the preset kept for that by ``use``.
    """

    plans: Plans | None = None
    exits: Sequence[int] = ()
    # the newest last; so many that a label for each user does no harm
    _by_spec: dict[str, Any] = field(default_factory=dict)
    _presets: dict[str, ExitPreset | None] = field(default_factory=dict)  # by spec, as they were when first asked for
    _lock: Any = field(default_factory=Lock)
    _given: WeakValueDictionary[int, Any] = field(default_factory=WeakValueDictionary)  # by id: few can be hashed

    def give(self, spec: str, drafter: Any) -> Drafter:
        """``drafter`` with what earlier ones of the same name and options found out."""
        if hasattr(drafter, "trained_for"):
            drafter.trained_for(self.exits)
        if task := getattr(drafter, "preset_task", ""):
            self._preset(spec, task, drafter)
        memory = getattr(drafter, "memory", None)
        if memory is not None:
            drafter.recall(self._known(spec, memory, drafter))
            self._given[id(drafter)] = drafter
        kept: Drafter = drafter
        return kept

    def _known(self, spec: str, memory: Any, drafter: Any) -> Any:
        """What the first drafter of this spec began, ``memory`` for that one itself."""
        with self._lock:
            known = self._by_spec.pop(spec, None)
            if known is None:
                self._warm(drafter)
            _last(self._by_spec, spec, memory if known is None else known)
            return self._by_spec[spec]

    def told(self) -> list[str]:
        """What drafters found out, a line each, those that say so."""
        with self._lock:
            presets, memories = list(self._presets.items()), list(self._by_spec.items())
        drafted_as = [f"{spec}: {_told_of(preset)}" for spec, preset in presets]
        return drafted_as + [f"{spec}: {memory.told()}" for spec, memory in memories if hasattr(memory, "told")]

    def searches(self) -> dict[str, SearchReport]:
        """What searches for plans did, by drafter."""
        with self._lock:
            memories = list(self._by_spec.items())
        return {spec: memory.report() for spec, memory in memories if hasattr(memory, "report")}

    def keep(self, drafter: Any) -> None:
        """The plan it found, if any, for other processes. One that was not given its memory here is its owner's."""
        if self._given.get(id(drafter)) is not drafter:
            return
        task, found = getattr(drafter, "task", None), getattr(drafter, "found", None)
        if self.plans is not None and task is not None and found is not None:
            self.plans.put(task, found)

    def _preset(self, spec: str, task: str, drafter: Any) -> None:
        """Draft as the preset of the task says, and say whether there is one."""
        with self._lock:
            if spec not in self._presets:
                _last(self._presets, spec, None if self.plans is None else self.plans.get_exit(task))
            preset = self._presets[spec]
        if preset is not None:
            drafter.use(preset)

    def _warm(self, drafter: Any) -> None:
        task = getattr(drafter, "task", None)
        warm = None if self.plans is None or task is None else self.plans.get(task)
        if warm is not None:
            drafter.begin_with(warm)


def _last(kept: dict[str, Any], spec: str, what: Any) -> None:
    kept[spec] = what
    if len(kept) > _SPECS:
        kept.pop(next(iter(kept)))


def _told_of(preset: ExitPreset | None) -> str:
    if preset is None:
        return "no preset is kept for this task here, so exits are chosen on the way"
    return f"drafting as its preset says, {preset.depth} tokens with exit {preset.layer}"
