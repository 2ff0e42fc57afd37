"""A plan as it is kept: what is true of it on every machine, and apart from that what it promised on each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from importlib.metadata import version
from typing import Any

from ..errors import PlanError, UsageError
from ..plan import LayerPlan
from ..search.found import Found, Warm
from .entry import by_name, mapping, number, share, text, whole


@dataclass(frozen=True, slots=True)
class Promise:
    """By one machine's costs: the speed over plain decoding, and the draft length it is reached at."""

    speed: float
    depth: int


@dataclass(frozen=True)
class KeptPlan:
    """``matchness``, ``acceptance``, ``tokens`` and ``settled`` as in ``Found``; ``promises`` by machine."""

    plan: LayerPlan
    matchness: float
    acceptance: float
    tokens: int
    settled: bool
    date: str
    version: str
    promises: Mapping[str, Promise] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Found, machine: str, before: KeptPlan | None = None) -> KeptPlan:
        """``before``, what was kept until now, still promises elsewhere what it did where the plan is the same.

        Where it is, and was seen as long as ``found`` or longer, its figures stay: only what it lacks is added.
        """
        if before is not None and before.plan == found.plan and before.tokens >= found.tokens:
            return before._with(found, machine)
        elsewhere = {} if before is None or before.plan != found.plan else before.promises
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        promises = {**elsewhere, machine: Promise(found.speed, found.depth)}
        figures = (found.matchness, found.acceptance, found.tokens, found.settled)
        return cls(found.plan, *figures, now, version("skipstone"), promises)

    def _with(self, found: Found, machine: str) -> KeptPlan:
        """The same figures, with the promise of a machine that gave none yet, and with the end of the search."""
        promises = {machine: Promise(found.speed, found.depth), **self.promises}
        return replace(self, settled=self.settled or found.settled, promises=promises)

    @property
    def warm(self) -> Warm:
        return Warm(self.plan, self.settled)

    def to_json(self) -> dict[str, Any]:
        return {
            "attn": sorted(self.plan.skip_attn),
            "mlp": sorted(self.plan.skip_mlp),
            "matchness": self.matchness,
            "acceptance": self.acceptance,
            "tokens": self.tokens,
            "settled": self.settled,
            "date": self.date,
            "version": self.version,
            "promises": {machine: asdict(promise) for machine, promise in self.promises.items()},
        }

    @classmethod
    def from_json(cls, entry: Any, layers: int) -> KeptPlan:
        """Raises UsageError for what is no plan, PlanError for one that names layers the model has not."""
        given = mapping(entry, "a plan")
        return cls(
            _plan(given, layers),
            share(given, "matchness"),
            share(given, "acceptance"),
            whole(given, "tokens"),
            given.get("settled") is True,
            text(given, "date"),
            text(given, "version"),
            {name: _promise(each) for name, each in by_name(given.get("promises"), "promises").items()},
        )

    def without_promises(self) -> KeptPlan:
        return replace(self, promises={})


def _plan(given: Mapping[str, Any], layers: int) -> LayerPlan:
    attn, mlp = _layers(given, "attn"), _layers(given, "mlp")
    absent = [layer for layer in (*attn, *mlp) if layer >= layers]
    if absent:
        raise PlanError(f"it leaves out layer {absent[0]}, but the model has layers 0..{layers - 1}")
    if not attn and not mlp:
        raise UsageError("it leaves out nothing")
    return LayerPlan.skipping(layers, attn, mlp)


def _layers(given: Mapping[str, Any], name: str) -> list[int]:
    layers = given.get(name)
    if not isinstance(layers, list) or not all(
        isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in layers
    ):
        raise UsageError(f'"{name}" is not a list of layers')
    return layers


def _promise(value: Any) -> Promise:
    given = mapping(value, "a promise")
    return Promise(number(given, "speed"), whole(given, "depth"))
