"""SWIFT's searcher: random choices, and now and then what a Gaussian process makes of those so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UsageError
from ..plan import LayerPlan
from .random_choice import RandomSearcher
from .searcher import Signals, Trial
from .sublayer import plan_without, searchable, skipped_by

_HAIR = 1e-6


@dataclass
class BayesSearcher:
    """Every ``every``-th plan is the most promising one for matchness, the others are random; all are learnt from.

    Where no process fits what was seen, a random plan takes that one's place.

    ``kappa``: how much an unknown is worth, the bound being mean + κ · deviation. ``alpha``: variance of a matchness by
    chance. Raises UsageError where the library for it is not installed.
    """

    num_layers: int
    count: int
    every: int = 25
    seed: int = 0
    kappa: float = 2.5
    alpha: float = 1e-2
    _asked: int = 0
    _random: RandomSearcher = field(init=False)
    _process: GaussianProcess = field(init=False)

    def __post_init__(self) -> None:
        self._random = RandomSearcher(self.num_layers, self.count, self.seed)
        self._process = GaussianProcess(len(searchable(self.num_layers)), self.seed, self.kappa, self.alpha)

    def ask(self, signals: Signals) -> LayerPlan | None:
        self._asked += 1
        if self._asked % self.every:
            return self._random.ask(signals)
        try:
            return self._largest(self._process.suggest())
        except (ValueError, ArithmeticError):  # numbers that no process fits, as with hardly any variance by chance
            return self._random.ask(signals)

    def tell(self, trial: Trial) -> None:
        gone = skipped_by(trial.plan)
        self._process.register([float(part in gone) for part in searchable(self.num_layers)], trial.matchness)

    def _largest(self, point: Sequence[float]) -> LayerPlan:
        """The plan without the sublayers whose coordinates are the ``count`` largest."""
        parts = searchable(self.num_layers)
        order = sorted(range(len(parts)), key=lambda n: -point[n])
        return plan_without(self.num_layers, [parts[n] for n in order[: self.count]])


class GaussianProcess:
    """The library ``bayesian-optimization`` over the unit cube of ``size`` dimensions."""

    def __init__(self, size: int, seed: int, kappa: float, alpha: float) -> None:
        library = _library()
        cube = {f"{n:05d}": (0.0, 1.0) for n in range(size)}
        ucb = library.acquisition.UpperConfidenceBound(kappa=kappa)
        self._optimizer = library.BayesianOptimization(None, cube, ucb, random_state=seed % (1 << 32), verbose=0)
        self._optimizer.set_gp_params(alpha=alpha)
        self._seen: Counter[tuple[float, ...]] = Counter()

    def register(self, point: Sequence[float], value: float) -> None:
        """A point may come again, with another value: the library wants all to differ, so it moves a hair inwards."""
        shrunk = 1 - _HAIR * self._seen[tuple(point)]
        self._seen[tuple(point)] += 1
        self._optimizer.register([shrunk * x for x in point], value)

    def suggest(self) -> list[float]:
        """The point with the highest upper confidence bound."""
        point = self._optimizer.suggest()
        return [float(point[name]) for name in sorted(point)]


def _library() -> Any:
    try:
        import bayes_opt
    except ImportError as error:
        raise UsageError(
            f"Bayesian optimisation needs a library that does not load ({error}): "
            'pip install "skipstone[search]", or search at random only with beta=0'
        ) from error
    return bayes_opt
