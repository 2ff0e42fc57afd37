"""The kept plans of one model, for those who generate: whatever is wrong with the disk is told, and stops nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ..errors import PlanError, SkipstoneError, StoreError
from ..search.found import Found, Warm
from ..search.preset import ExitPreset
from .kept_exit import KeptExit
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
        """The skip plan kept for the task, to begin with."""
        plans = self._kept()
        kept = None if plans is None else plans.tasks.get(task)
        return None if kept is None else kept.warm

    def get_exit(self, task: str) -> ExitPreset | None:
        """The exit preset kept for the task, with its speed on this machine where it was measured here."""
        plans = self._kept()
        kept = None if plans is None else plans.exits.get(task)
        return None if kept is None else kept.on(self.machine())

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

    def put_exit(self, task: str, preset: ExitPreset) -> None:
        """Keep an exit preset in the place of the task's last one."""
        if self._empty is None:
            return
        try:
            self.keep_exit(task, preset)
        except SkipstoneError as error:
            self._tell(f"the exit preset is not kept: {error}")

    def keep(self, task: str, found: Found) -> ModelPlans:
        """All that is kept of the model after this, for this task the plan in the form that was seen longest.

        Raises StoreError where it cannot be written.
        """
        empty = self._identified("the plan found")
        plans = change_plans(self.folder, empty, lambda plans: self._changed(plans, task, found), self._tell)
        self._written[task] = found  # only now: what failed is tried again
        return plans

    def to_keep(self, task: str, found: Found) -> ModelPlans:
        """The plan as it would be kept, for readers: nothing is read or written, and the model may be unknown."""
        return self._changed(self._empty or ModelPlans("unknown", self.layers), task, found)

    def keep_exit(self, task: str, preset: ExitPreset) -> ModelPlans:
        """The same for an exit preset. Raises PlanError for one that the model has no layers for."""
        if preset.layer >= self.layers:
            raise PlanError(f"exit {preset.layer} leaves nothing to verify with: {self.model} has {self.layers} layers")
        empty = self._identified("the exit preset")
        return change_plans(self.folder, empty, lambda plans: self._with_exit(plans, task, preset), self._tell)

    def _identified(self, what: str) -> ModelPlans:
        if self._empty is None:
            raise StoreError(f"{what} is not kept: {self.model} cannot be told from other models")
        return self._empty

    def _kept(self) -> ModelPlans | None:
        """All that is kept of the model."""
        return None if self._empty is None else load_plans(self.folder, self._empty, self._tell)

    def _changed(self, plans: ModelPlans, task: str, found: Found) -> ModelPlans:
        kept = KeptPlan.of(found, self.machine(), plans.tasks.get(task))
        return replace(self._named(plans), tasks={**plans.tasks, task: kept})

    def _with_exit(self, plans: ModelPlans, task: str, preset: ExitPreset) -> ModelPlans:
        kept = KeptExit.of(preset, self.machine(), plans.exits.get(task))
        return replace(self._named(plans), exits={**plans.exits, task: kept})

    def _named(self, plans: ModelPlans) -> ModelPlans:
        return replace(plans, layers=self.layers, model=self.model)

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
