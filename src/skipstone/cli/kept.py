"""Whose kept plans are meant: a model by its name or folder, or by the fingerprint it has in the list."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ModelNotFound, UsageError
from ..store import ModelPlans, all_plans, cache_folders
from ..text.progress import to_stderr

if TYPE_CHECKING:
    from ..text.locate import ModelSource

_ENOUGH = 6  # digits of a fingerprint


@dataclass(frozen=True)
class Kept:
    """The plans in a cache folder. Nothing here reads whole weights, or looks for a model on the network."""

    cache: Path | None
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", cache_folders(self.cache).plans)

    def all(self) -> list[ModelPlans]:
        return all_plans(self.folder, to_stderr)

    def of(self, model: str) -> ModelPlans:
        """Raises UsageError where nothing is kept of the model, ModelNotFound where there is none."""
        kept = self.all()
        printed = [plans for plans in kept if len(model) >= _ENOUGH and plans.fingerprint.startswith(model)]
        if len(printed) == 1:
            return printed[0]
        try:
            fingerprint = self._fingerprint(self._source(model))
        except ModelNotFound:
            named = [plans for plans in kept if plans.model == model]
            if len(named) != 1:
                raise
            return named[0]  # the model is gone, its plans are not
        found = next((plans for plans in kept if plans.fingerprint == fingerprint), None)
        if found is None:
            raise UsageError(
                f"no plan of {model} is kept: skipstone tune {model} --prompts FILE finds one for skip, "
                "skipstone sweep one for exit"
            )
        return found

    def identify(self, model: str) -> ModelPlans:
        """The model with no plans yet. Raises what looking for it and inspecting it raise."""
        from ..hf.facts import inspect_folder

        source = self._source(model)
        layers = inspect_folder(source.folder, adapters=source.adapters).layers
        return ModelPlans(self._fingerprint(source), layers, model)

    def _source(self, model: str) -> ModelSource:
        from ..text.locate import Finder

        return Finder(to_stderr, self.cache, offline=True).source(model)

    def _fingerprint(self, source: ModelSource) -> str:
        from ..hf.checkpoint import read_checkpoint
        from ..hf.fingerprint import fingerprint

        return fingerprint(read_checkpoint(source.folder), source.adapters)
