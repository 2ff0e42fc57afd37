"""SWIFT's draft: the model itself without some of its attention and MLP sublayers (arXiv 2410.06916)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..drafting import DraftState
from ..errors import PlanError, UsageError
from ..network import Network
from ..plan import LayerPlan
from ..request import Request
from ..telemetry import StepRecord
from ..tree import Draft
from .chain import Backbone, room_for_depth
from .head import HELP, DraftHead, check_head


class SkipDrafter:
    """The model without some of its sublayers (a fixed plan), drafting a chain or a comb tree (SWIFT)."""

    @dataclass(frozen=True)
    class Options:
        plan: str = field(default="", metadata={"help": "uniform: every other layer; leave out to name sublayers"})
        attn: str = field(default="", metadata={"help": "attention sublayers to skip, as 3+5+8-11"})
        mlp: str = field(default="", metadata={"help": "MLP sublayers to skip, as 3+5+8-11"})
        depth: int = field(default=4, metadata={"help": "tokens drafted at most"})
        width: int = field(default=1, metadata={"help": "choices kept at each depth"})
        head: str = field(default="auto", metadata={"help": HELP})

        def __post_init__(self) -> None:
            check_head("skip", self.head)
            if self.depth < 1 or self.width < 1:
                raise UsageError(f"skip: depth={self.depth} and width={self.width} must be 1 or more")
            if self.plan not in ("", "uniform"):
                raise UsageError(f"skip: plan={self.plan!r} is not known: use plan=uniform, or attn=… and mlp=…")
            if self.plan and (self.attn or self.mlp):
                raise UsageError("skip: plan and attn/mlp contradict each other: give one or the other")

    def __init__(self, options: Options, network: Network) -> None:
        self.options = options
        self.head = DraftHead(options.head, network)
        self.plan = _plan(options, network.num_layers)

    @property
    def uses_costs(self) -> bool:
        return self.head.uses_costs

    def admit(self, row: int, request: Request) -> None:
        pass

    def release(self, row: int) -> None:
        self.head.release(row)

    def propose(self, state: DraftState) -> Draft:
        depth = room_for_depth(state, self.options.depth, self.options.width)
        if depth == 0:
            return state.nothing()
        return Backbone(state, self.plan, depth, self.head, self.options.width).draft()

    def observe(self, record: StepRecord) -> None:
        self.head.observe(record)


def _plan(options: SkipDrafter.Options, num_layers: int) -> LayerPlan:
    if options.attn or options.mlp:
        attn, mlp = _layers(options.attn, num_layers), _layers(options.mlp, num_layers)
        return LayerPlan.skipping(num_layers, attn, mlp)
    if num_layers < 3:
        raise PlanError(f"skip: a model of {num_layers} layers has none between its first and last to skip")
    return LayerPlan.uniform(num_layers)


def _layers(text: str, num_layers: int) -> set[int]:
    """Layer numbers written 3+5+8-11."""
    layers: set[int] = set()
    for part in filter(None, text.split("+")):
        low, _, high = part.partition("-")
        if not (low.isdecimal() and (high.isdecimal() or not high)) or int(low) > int(high or low):
            raise UsageError(f"skip: {text!r} does not name layers: write them as 3+5+8-11")
        if int(high or low) >= num_layers:
            raise PlanError(f"skip: layer {high or low} is not in the model: its layers are 0..{num_layers - 1}")
        layers.update(range(int(low), int(high or low) + 1))
    return layers
