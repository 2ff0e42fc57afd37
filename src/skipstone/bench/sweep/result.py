"""What a sweep came to: every setting's forecast, what was measured, and the setting to draft with, if any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ...search.preset import ExitPreset
from .measurement import Measured
from .prediction import Prediction
from .setting import Grid, Setting

_AGREES = 0.5  # an exit that was trained agrees more often than not


@dataclass(frozen=True)
class Swept:
    """``predictions`` are of the whole grid, the fastest first; ``tokens`` are those that agreement was counted on.

    ``trained`` are exits that the model records.
    """

    grid: Grid
    predictions: tuple[Prediction, ...]
    measured: tuple[Measured, ...]
    texts: int
    tokens: int
    trained: tuple[int, ...] = ()

    @property
    def best(self) -> Measured | None:
        """The fastest setting measured, if it is faster than plain decoding and says the same."""
        pay = [each for each in self.measured if each.speed.value > 1 and not each.differences]
        return max(pay, key=lambda each: each.speed.value, default=None)

    @property
    def preset(self) -> ExitPreset | None:
        best = self.best
        if best is None:
            return None
        setting = best.setting
        draft = (setting.exit, setting.depth, setting.width, setting.head)
        return ExitPreset(*draft, self.prediction(setting).agreement, self.tokens, best.speed.value)

    @property
    def verdict(self) -> str:
        """In a line."""
        if self.best is not None:
            low, high = self.best.speed.interval
            doubt = "" if low > 1 else "; more prompts would show whether it is faster at all"
            speed = f"{self.best.speed.value:.2f} × plain decoding ({low:.2f} to {high:.2f})"
            return f"{self.best.setting.told}: {speed}{doubt}"
        if self.measured and all(each.differences for each in self.measured):
            return "drafted texts are not those of plain decoding: look into it with skipstone check"
        return self._nothing_pays()

    def _nothing_pays(self) -> str:
        first = self.predictions[0]
        trained = first.setting.exit in self.trained or first.agreement >= _AGREES
        agreement = f"agreement at exit {first.setting.exit} is {100 * first.agreement:.0f} %"
        advice = "use skip or ngram" if trained else "train it (skipstone train), or use skip or ngram"
        if not self.measured and not trained:
            return f"{agreement}: {advice}"
        came = f"{first.setting.told} is predicted to come to {first.speed:.2f} × plain decoding, and none was measured"
        if self.measured:
            most = max(self.measured, key=lambda each: each.speed.value)
            came = f"{most.setting.told} came to {most.speed.value:.2f} × plain decoding"
        return f"nothing pays here: {came}; {agreement}: {advice}"

    def prediction(self, setting: Setting) -> Prediction:
        return next(each for each in self.predictions if each.setting == setting)

    def measurement(self, setting: Setting) -> Measured | None:
        return next((each for each in self.measured if each.setting == setting), None)

    @property
    def cells(self) -> Mapping[tuple[int, int], float]:
        """Speed over plain decoding by exit and depth, at the best width and head: measured where that was, else
        predicted."""
        found: dict[tuple[int, int], float] = {}
        for each in reversed(self.predictions):  # the fastest last
            found[each.setting.exit, each.setting.depth] = each.speed
        measured: dict[tuple[int, int], float] = {}
        for taken in self.measured:
            place = (taken.setting.exit, taken.setting.depth)
            measured[place] = max(taken.speed.value, measured.get(place, 0.0))
        return found | measured

    @property
    def by_exit(self) -> list[Prediction]:
        """The fastest of each exit, as predicted."""
        firsts = {each.setting.exit: each for each in reversed(self.predictions)}
        return [firsts[layer] for layer in self.grid.exits]

    def rows(self) -> list[dict[str, Any]]:
        """A row for each setting, the fastest first."""
        return [self._row(each) for each in self.predictions]

    def _row(self, each: Prediction) -> dict[str, Any]:
        taken = self.measurement(each.setting)
        about = {**asdict(each.setting), "agreement": each.agreement, "tokens_per_cycle": each.tokens_per_cycle}
        if taken is None:
            return {**about, "predicted": each.speed, "measured": None, "low": None, "high": None}
        low, high = taken.speed.interval
        return {**about, "predicted": each.speed, "measured": taken.speed.value, "low": low, "high": high}

    def to_json(self) -> dict[str, Any]:
        exits = [
            {"exit": each.setting.exit, "agreement": each.agreement, "acceptance_by_depth": self._by_depth(each)}
            for each in self.by_exit
        ]
        counts = {"near_ties": sum(m.near_ties for m in self.measured)}
        counts |= {"differences": sum(m.differences for m in self.measured)}
        about = {"texts": self.texts, "tokens": self.tokens, **counts, "verdict": self.verdict}
        return {**about, "exits": exits, "settings": self.rows()}

    def _by_depth(self, each: Prediction) -> list[float]:
        """Of the deepest draft with that exit and head."""
        same = [
            p for p in self.predictions if (p.setting.exit, p.setting.head) == (each.setting.exit, each.setting.head)
        ]
        return max(same, key=lambda p: (p.setting.depth, -p.setting.width)).walk.acceptance_by_depth
