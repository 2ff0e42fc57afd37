"""The kept plans of one model, for those who generate: whatever is wrong with the disk is told, and stops nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..errors import SkipstoneError, StoreError
from ..search.found import Found, Warm
from .kept_plan import KeptPlan
from .plans import ModelPlans, NewerPlans, change_plans, load_plans


@dataclass
class PlanShelf:
    """``identify`` tells the fingerprint, ``machine`` where promises hold; both are asked when a plan first matters."""

    folder: Path
    model: str
    layers: int
    identify: Callable[[], str]
    machine: Callable[[], str]
    progress: Callable[[str], None]
    _written: dict[str, Found] = field(default_factory=dict)  # by task
    _told: set[str] = field(default_factory=set)

    def get(self, task: str) -> Warm | None:
        """The plan kept for the task, to begin with."""
        empty = self._empty
        plans = None if empty is None else load_plans(self.folder, empty.fingerprint, self._tell)
        kept = None if plans is None else plans.tasks.get(task)
        if plans is None or kept is None:
            return None
        if plans.layers != self.layers:
            self._tell(f"the kept plans of {self.model} are for {plans.layers} layers, not {self.layers}: left alone")
            return None
        return kept.warm

    def put(self, task: str, found: Found) -> None:
        """Keep a plan, where it is another than was kept, or has been seen twice as long since."""
        if self._empty is None or not self._worth_writing(task, found):
            return
        try:
            self.keep(task, found)
        except NewerPlans as error:
            self._tell(str(error))
        except StoreError as error:
            self._tell(f"the plan found is not kept: {error}")

    def keep(self, task: str, found: Found) -> ModelPlans:
        """All that is kept of the model after this. Raises StoreError where it cannot be written."""
        empty = self._empty
        if empty is None:
            raise StoreError(f"the plan found is not kept: {self.model} cannot be told from other models")
        self._written[task] = found
        return change_plans(self.folder, empty, lambda plans: self._changed(plans, task, found), self._tell)

    def _changed(self, plans: ModelPlans, task: str, found: Found) -> ModelPlans:
        kept = KeptPlan.of(found, self.machine(), plans.tasks.get(task))
        return ModelPlans(plans.fingerprint, self.layers, self.model, {**plans.tasks, task: kept})

    def _worth_writing(self, task: str, found: Found) -> bool:
        before = self._written.get(task)
        if before is None or before.plan != found.plan or before.settled != found.settled:
            return True
        return found.tokens >= 2 * before.tokens

    @cached_property
    def _empty(self) -> ModelPlans | None:
        """Which model this is; None where that cannot be found out."""
        try:
            return ModelPlans(self.identify(), self.layers, self.model)
        except (SkipstoneError, OSError) as error:
            self._tell(f"plans are not kept: {error}")
            return None

    def _tell(self, line: str) -> None:
        """Once: what fails at one generation fails at the next."""
        if line not in self._told:
            self._told.add(line)
            self.progress(line)
