"""Ways to decode one prompt with one model, and what each would reach if weights were all that took time."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from measuring import head_bytes, plan_bytes, wait

from skipstone.bench.transformers_baseline import transformers_generate
from skipstone.drafting import Drafter
from skipstone.engine import Engine
from skipstone.network import Network
from skipstone.plan import LayerPlan
from skipstone.plugins import make_drafter
from skipstone.request import Request
from skipstone.telemetry import Summary


@dataclass
class Arm:
    """``decode`` gives the output tokens; ``cycle`` is the weight bytes of one draft and its verification."""

    name: str
    decode: Callable[[], list[int]]
    cycle: int
    summary: Summary | None = None
    tokens: list[int] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    error: str = ""

    def measure(self, device: Any, keep: bool) -> None:
        """Decode once; the first time is for caches and graphs to fill, so it is not kept."""
        wait(device)
        began = perf_counter()
        self.tokens = self.decode()
        wait(device)
        if keep:
            self.rates.append(len(self.tokens) / (perf_counter() - began))

    def row(self, expected: list[int], bandwidth: float) -> dict[str, Any]:
        rate = statistics.median(self.rates) if self.rates else 0.0
        accepted = self.summary.mean_accepted_length if self.summary is not None else 1.0
        bound = accepted * bandwidth / self.cycle
        row = {"arm": self.name, "tokens/s": rate, "M": accepted, "bound": bound, "of bound": rate / bound}
        return {**row, "equal": self.error or _equal(expected, self.tokens)}


def _equal(expected: list[int], got: list[int]) -> str:
    if got == expected:
        return "yes"
    same = next(
        (n for n, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b), min(len(expected), len(got))
    )
    return f"to {same}"


def transformers_arm(network: Any, request: Request) -> Arm:
    full = plan_bytes(network.model, LayerPlan.full(network.num_layers)) + head_bytes(network.model)
    return Arm("transformers generate", lambda: transformers_generate(network.model, request).tokens, full)


def engine_arm(name: str, network: Network, model: Any, request: Request, drafter: str) -> Arm:
    """One engine for all repeats, as in a server: its cache, and with it its graphs, stay."""
    made = make_drafter(drafter, network)
    summary = Summary()
    capacity = len(request.prompt) + request.max_new_tokens + 64
    engine = Engine(network, made, capacity=capacity, sinks=[summary])
    return Arm(name, lambda: _decode(engine, request), cycle_bytes(model, made, network.num_layers), summary)


def cycle_bytes(model: Any, drafter: Drafter, num_layers: int) -> int:
    """d draft runs and heads, then verification; an exit's early layers run once more for the last node."""
    full, head = plan_bytes(model, LayerPlan.full(num_layers)), head_bytes(model)
    plan: LayerPlan | None = getattr(drafter, "plan", None)
    if plan is None:
        return full + head
    depth = int(drafter.options.depth)  # type: ignore[attr-defined]
    resumed = plan.stop < num_layers
    verify = plan_bytes(model, LayerPlan.rest(plan.stop, num_layers)) if resumed else full
    return (depth + resumed) * plan_bytes(model, plan) + (depth + 1) * head + verify


def _decode(engine: Engine, request: Request) -> list[int]:
    row = engine.admit(request)[0]
    tokens: list[int] = []
    try:
        while engine.busy:
            for emission in engine.step():
                if emission.error is not None:
                    raise emission.error
                tokens += emission.tokens
    finally:
        engine.release(row)
    return tokens
