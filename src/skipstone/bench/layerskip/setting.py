"""Which exit and how many drafted tokens decode fastest, found in a few short texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...errors import UsageError
from ...plugins import make_drafter
from ...text.language_model import LanguageModel, wants
from ..efficiency.decoding import Decoded, Job, decode
from ..timing import Clock, Rounds, interleaved

if TYPE_CHECKING:
    from ..efficiency.lab import Lab

_BUDGET_S = 180.0


@dataclass(frozen=True)
class Setting:
    """``tried`` are speed-ups over plain decoding by exit, depth and width, of the search: good enough to choose by."""

    exit: int
    depth: int
    width: int = 1
    tried: dict[str, float] = field(default_factory=dict)

    def spec(self, head: str = "auto") -> str:
        width = f",width={self.width}" if self.width > 1 else ""
        return f"exit:layer={self.exit},depth={self.depth}{width},head={head}"


def calibrated(
    model: LanguageModel, exits: Sequence[int], shapes: Sequence[tuple[int, int]], jobs: Sequence[Job], lab: Lab
) -> Setting:
    """The exit, and the depth and width of ``shapes``, with the least time a token over ``jobs``.

    Raises UsageError where there is no exit to try.
    """
    settings = [Setting(each, *shape) for each in exits for shape in shapes]
    if not settings:
        raise UsageError("no exit to decode with: the checkpoint records none, and the model has too few layers")
    lab.tell(f"  looking for exit, depth and width: {len(settings)} settings, {len(jobs)} short texts each")

    def taking(spec: str) -> Callable[[int], float]:
        return lambda number: decoded(model, spec, jobs[number % len(jobs)], lab.clock).per_token

    arms = {"none": taking("none"), **{each.spec(): taking(each.spec()) for each in settings}}
    for spec in ("none", settings[0].spec()):
        arms[spec](0)  # warms up
    taken = interleaved(arms, Rounds(len(jobs), _BUDGET_S), lab.clock)
    total = {spec: sum(spent) for spec, spent in taken.items()}
    best = min(settings, key=lambda each: total[each.spec()])
    tried = {f"{each.exit},{each.depth},{each.width}": total["none"] / total[each.spec()] for each in settings}
    return Setting(best.exit, best.depth, best.width, tried)


def decoded(model: LanguageModel, spec: str, job: Job, clock: Clock) -> Decoded:
    """As users' texts are: with the costs of steps where the drafter asks for them."""
    costs = model.costs if wants(make_drafter(spec, model.network)) else None
    return decode(model.network, spec, job, clock, costs)
