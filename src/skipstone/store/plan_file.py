"""A file that ``skipstone plans export`` wrote, checked against the model its plans are to be kept for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError, did_you_mean
from .plans import ModelPlans, NewerPlans, read_plans, shown


@dataclass(frozen=True)
class PlanFile:
    """What a file promises it promises on the machines it names, so that stays as it is."""

    path: Path
    plans: ModelPlans

    @classmethod
    def read(cls, path: Path) -> PlanFile:
        """Raises UsageError, PlanError."""
        try:
            return cls(path, read_plans(path))
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
        except UsageError as error:
            raise type(error)(f"{path} cannot be imported: {error}") from error
        except NewerPlans as error:
            raise UsageError(f"cannot be imported: {error}") from error

    def plans_for(self, model: ModelPlans, task: str | None = None) -> ModelPlans:
        """The plans, those of one task alone if it is named. Raises UsageError where they are not of ``model``."""
        self._check_model(model)
        if not self.plans.labels:
            raise UsageError(f"{self.path} holds no plan")
        if task is None:
            return self.plans
        if task not in self.plans.labels:
            known = did_you_mean(task, map(shown, self.plans.labels))
            raise UsageError(f'{self.path} holds no plan for task "{task}": {known}')
        return self.plans.only(task)

    def _check_model(self, model: ModelPlans) -> None:
        given = self.plans
        if given.fingerprint != model.fingerprint:
            theirs = f"{given.model or 'another model'} ({given.fingerprint[:12]})"
            ours = f"{model.model} ({model.fingerprint[:12]})"
            fit = "plans fit the model they were found on only"
            raise UsageError(f"{self.path} holds plans of {theirs}, not of {ours}: {fit}")
        if given.layers != model.layers:
            raise UsageError(f"{self.path} says that the model has {given.layers} layers, but it has {model.layers}")
