"""A sweep: texts are generated and looked at once, all settings predicted, the most promising ones measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from ...errors import RequestError, UsageError
from ...search.pricing import costs_of
from ...text.language_model import LanguageModel, Prompt
from ..timing import Clock
from .agreement import ByDraft, places
from .measurement import Measured, Measurement
from .prediction import Prediction, Prices, predict
from .result import Swept
from .setting import Asked, Grid, Setting
from .texts import FEWEST, Text, generated, job_of

Progress = Callable[[str, int, int], None]  # what is being done, how much of it is, of how much

_HOPELESS = 0.9  # predictions are not so wrong that what comes to less would pay
_BEST, _SHARE = 3, 10  # settings measured unless asked for more or less, and at most one in so many of the grid


@dataclass(frozen=True)
class Extent:
    """``tokens`` of each text at most; the ``best`` settings are measured (None: three, or a tenth of all if that is
    less), or, if ``full``, all.
    """

    tokens: int = 128
    best: int | None = None
    full: bool = False

    def __post_init__(self) -> None:
        if self.tokens < FEWEST:
            raise RequestError(f"texts of {self.tokens} tokens tell nothing of speed: use {FEWEST} or more")
        if self.best is not None and self.best < 1:
            raise UsageError(f"the best {self.best} settings are none to measure: use 1 or more")


def _nobody(what: str, done: int, total: int) -> None:
    pass


@dataclass(frozen=True)
class Sweep:
    """Raises PlanError for exits the model has not, UsageError and RequestError for what cannot be swept."""

    model: LanguageModel
    asked: Asked = field(default_factory=Asked)
    extent: Extent = field(default_factory=Extent)
    clock: Clock = perf_counter
    progress: Progress = _nobody

    def run(self, prompts: Sequence[Prompt]) -> Swept:
        """Raises UsageError where every text ends at once."""
        grid = Grid.of(self.model, self.asked)
        texts, looks = self._looked(prompts, grid)
        context = sum(text.context for text in texts) // len(texts)
        prices = Prices(
            costs_of(self.model.costs, self.model.network.num_layers), self.model.network.num_layers, context
        )
        found = [predict(setting, texts, looks, prices) for setting in grid.settings]
        found.sort(key=lambda each: each.speed, reverse=True)
        measured = self._measured(self._chosen(found), texts)
        trained = tuple(self.model.loaded.exits)
        return Swept(grid, tuple(found), tuple(measured), len(texts), found[0].walk.tokens, trained)

    def _looked(self, prompts: Sequence[Prompt], grid: Grid) -> tuple[list[Text], list[ByDraft]]:
        jobs = [job_of(self.model, prompt, self.extent.tokens) for prompt in prompts]
        texts: list[Text] = []
        looks: list[ByDraft] = []
        for number, job in enumerate(jobs):
            self.progress("texts", number, len(jobs))
            text = generated(self.model, job, self.clock)
            if len(text.output) >= FEWEST:
                texts.append(text)
                looks.append(places(self.model.network, text, grid))
        self.progress("texts", len(jobs), len(jobs))
        if not texts:
            raise UsageError(
                f"every text ended within {FEWEST - 1} tokens: give prompts that the model answers at length"
            )
        return texts, looks

    def _chosen(self, predictions: Sequence[Prediction]) -> list[Setting]:
        """What to measure. ``predictions``: the fastest first."""
        if self.extent.full:
            return [each.setting for each in predictions]
        if self.extent.best is not None:
            return [each.setting for each in predictions[: self.extent.best]]
        most = max(1, min(_BEST, len(predictions) // _SHARE))
        return [each.setting for each in predictions if each.speed > _HOPELESS][:most]

    def _measured(self, settings: Sequence[Setting], texts: Sequence[Text]) -> list[Measured]:
        if not settings:
            return []
        what = f"rounds of {len(settings)} settings"
        measurement = Measurement(
            self.model, texts, self.clock, lambda done: self.progress(what, done, measurement.rounds)
        )
        found = measurement.of(settings)
        self.progress(what, measurement.rounds, measurement.rounds)
        return found
