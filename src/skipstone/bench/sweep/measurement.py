"""Settings on the clock, each text beside its plain decoding, and whether they say the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ...telemetry import Summary
from ...text.language_model import LanguageModel
from ..check import only_near_ties
from ..efficiency.decoding import Decoded, decode
from ..timing import Clock, Estimate, Rounds, interleaved, paired_ratio
from .setting import Setting
from .texts import Text

ROUNDS = 5  # at least, where there are fewer texts
_BUDGET_S = 240.0
_WARM_UP = 8  # tokens
_PLAIN = "none"


@dataclass(frozen=True)
class Measured:
    """``speed`` over plain decoding. Texts that are not the plain ones are near-ties or, which never should be, not."""

    setting: Setting
    speed: Estimate
    tokens_per_cycle: float
    near_ties: int
    differences: int


@dataclass
class Measurement:
    """``told`` hears of every round begun. Not every round takes place where rounds take long."""

    model: LanguageModel
    texts: Sequence[Text]
    clock: Clock
    told: Callable[[int], None] = lambda done: None
    _taken: dict[str, list[Decoded]] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        return max(len(self.texts), ROUNDS)

    def of(self, settings: Sequence[Setting]) -> list[Measured]:
        specs = [_PLAIN, *(setting.spec for setting in settings)]
        self._taken = {spec: [] for spec in specs}
        for spec in specs:  # warms up
            decode(self.model.network, spec, replace(self.texts[0].job, new_tokens=_WARM_UP), self.clock)
        rounds = Rounds(self.rounds, _BUDGET_S, min(3, self.rounds))
        seconds = interleaved({spec: self._arm(spec) for spec in specs}, rounds, self.clock)
        return [self._measured(setting, seconds[_PLAIN], seconds[setting.spec]) for setting in settings]

    def _arm(self, spec: str) -> Callable[[int], float]:
        def take(number: int) -> float:
            if spec == _PLAIN:
                self.told(number)
            job = self.texts[number % len(self.texts)].job
            decoded = decode(self.model.network, spec, job, self.clock)
            self._taken[spec].append(decoded)
            return _per_token(decoded)

        return take

    def _measured(self, setting: Setting, plain: Sequence[float], drafted: Sequence[float]) -> Measured:
        total = Summary()
        for decoded in self._taken[setting.spec]:
            total.merge(decoded.summary)
        near_ties = differences = 0
        for text, decoded in zip(self.texts, self._taken[setting.spec], strict=False):
            if tuple(decoded.tokens) != text.output:
                near = only_near_ties(self.model, setting.spec, text.job.request)
                near_ties, differences = near_ties + near, differences + (not near)
        return Measured(setting, paired_ratio(plain, drafted), total.mean_accepted_length, near_ties, differences)


def _per_token(decoded: Decoded) -> float:
    """Seconds a token, without the prompt's where there is more than one step."""
    return decoded.per_token if decoded.steady_tokens else decoded.seconds / len(decoded.tokens)
