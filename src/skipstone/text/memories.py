"""What drafters find out and the next ones go on from: within a process by their name, over processes as plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakValueDictionary

from ..drafting import Drafter
from ..search.found import Found, Warm


class Plans(Protocol):
    """Plans of the model by task, on disk or elsewhere (``store.PlanShelf``). Neither of the two raises."""

    def get(self, task: str) -> Warm | None: ...

    def put(self, task: str, found: Found) -> None: ...


@dataclass
class Memories:
    """A drafter takes part by ``memory`` and ``recall``; and in plans by ``task``, ``begin_with`` and ``found``.

    One that exits early is told by ``trained_for`` which ``exits`` the model was trained for.
    """

    plans: Plans | None = None
    exits: Sequence[int] = ()
    _by_spec: dict[str, Any] = field(default_factory=dict)
    _given: WeakValueDictionary[int, Any] = field(default_factory=WeakValueDictionary)  # by id: few can be hashed

    def give(self, spec: str, drafter: Any) -> Drafter:
        """``drafter`` with what earlier ones of the same name and options found out."""
        if hasattr(drafter, "trained_for"):
            drafter.trained_for(self.exits)
        memory = getattr(drafter, "memory", None)
        if memory is not None:
            if spec not in self._by_spec:
                self._by_spec[spec] = memory
                self._warm(drafter)
            drafter.recall(self._by_spec[spec])
            self._given[id(drafter)] = drafter
        kept: Drafter = drafter
        return kept

    def told(self) -> list[str]:
        """What drafters found out, a line each, those that say so."""
        memories = self._by_spec.items()
        return [f"{spec}: {memory.told()}" for spec, memory in memories if hasattr(memory, "told")]

    def keep(self, drafter: Any) -> None:
        """The plan it found, if any, for other processes. One that was not given its memory here is its owner's."""
        if self._given.get(id(drafter)) is not drafter:
            return
        task, found = getattr(drafter, "task", None), getattr(drafter, "found", None)
        if self.plans is not None and task is not None and found is not None:
            self.plans.put(task, found)

    def _warm(self, drafter: Any) -> None:
        task = getattr(drafter, "task", None)
        warm = None if self.plans is None or task is None else self.plans.get(task)
        if warm is not None:
            drafter.begin_with(warm)
