"""Whose kept plans are meant: a model by its name or folder, or by the fingerprint it has in the list."""

from __future__ import annotations

from collections.abc import Sequence
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
        if (printed := _printed(model, kept)) is not None:
            return printed
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
                f"no plan of {model} is kept: skipstone tune {model} --prompts FILE searches for one, "
                "and keeps it where one pays; skipstone sweep one for exit"
            )
        return found

    def identify(self, model: str, file: ModelPlans) -> ModelPlans:
        """The model with no plans yet; a fingerprint may also be that of the plans in a file.

        Raises what looking for it and inspecting it raise.
        """
        from ..hf.facts import inspect_folder

        if (printed := _printed(model, self.all()) or _printed(model, [file])) is not None:
            return ModelPlans(printed.fingerprint, printed.layers, printed.model)
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


def _printed(given: str, among: Sequence[ModelPlans]) -> ModelPlans | None:
    """The plans of the one model whose fingerprint begins so."""
    found = [plans for plans in among if len(given) >= _ENOUGH and plans.fingerprint.startswith(given)]
    return found[0] if len(found) == 1 else None
