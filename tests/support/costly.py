"""A network whose steps take a known time on a clock of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from skipstone.cache import KVCache, LayerShape, Placement
from skipstone.cost import Step
from skipstone.curve import Curve, Surface
from skipstone.network import Run
from skipstone.plan import LayerPlan


def known_ms(step: Step, layers: int, vocab_size: int) -> float:
    """Bent and stepped, as real steps are."""
    tokens = step.nodes * step.rows
    ran = step.plan.stop - step.plan.start
    read = step.rows * step.context * (2e-5 + 3e-6 * step.nodes) + 0.01 * (step.rows - 1)
    attention = 0.06 + 0.004 * tokens + read
    mlp = 0.12 + 0.02 * math.ceil(tokens / 4)
    overhead = 0.3 + 0.01 * tokens + 2e-5 * step.context
    entries = vocab_size if step.head is True else int(step.head)
    head = (0.1 + entries / vocab_size) * (2 + 0.1 * tokens) if entries else 0.0
    return overhead + (ran - len(step.plan.skip_attn)) * attention + (ran - len(step.plan.skip_mlp)) * mlp + head


@dataclass
class CostlyNetwork:
    """Satisfies ``Network``; ``disturb`` maps the count of calls to a factor on what the call takes."""

    num_layers: int = 30
    vocab_size: int = 4800
    context: int = 4096
    slowness: float = 1.0
    disturb: Callable[[int], float] = lambda call: 1.0
    dtype: torch.dtype = torch.float32
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    now: float = 0.0  # seconds
    calls: int = 0

    def clock(self) -> float:
        return self.now

    def new_cache(self, rows: int, capacity: int) -> KVCache:
        return KVCache([LayerShape(1, 1, 1)] * self.num_layers, rows, capacity, dtype=self.dtype, device=self.device)

    def run(self, x: Tensor, placement: Placement, cache: KVCache, plan: LayerPlan, taps: Sequence[int] = ()) -> Run:
        rows, nodes = x.shape[:2]
        assert int(placement.positions.max()) < self.context
        assert plan.start > 0 or 0 <= int(x.min()) <= int(x.max()) < self.vocab_size
        self._take(Step(plan, nodes, rows, context=placement.first[0], head=False))
        return Run(torch.zeros(rows, nodes, 1))

    def logits(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
        rows, nodes, _ = hidden.shape
        none = LayerPlan.skipping(1, [0], [0])
        entries = self.vocab_size if subset is None else len(subset)
        without = known_ms(Step(none, nodes, rows, 0, head=False), self.num_layers, self.vocab_size)
        self._take(Step(none, nodes, rows, 0, head=entries), less=without)
        return torch.zeros(rows, nodes, entries)

    def narrow_head(self, tokens: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda hidden: self.logits(hidden, tokens)

    def _take(self, step: Step, less: float = 0.0) -> None:
        self.calls += 1
        ms = known_ms(step, self.num_layers, self.vocab_size) - less
        self.now += ms * self.slowness * self.disturb(self.calls) / 1e3


def line(at_1: float, at_32: float) -> Curve:
    return Curve((1, 32), (at_1, at_32))


def flat(value: float) -> Surface:
    return Surface((1,), (Curve((0,), (value,)),))
