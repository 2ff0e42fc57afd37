"""LayerSkip's draft: the first E layers, whose work verification takes over instead of repeating (arXiv 2404.16710)."""

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


class ExitDrafter:
    """The first ``layer`` layers, final norm and head there (LayerSkip); verification resumes at that layer."""

    @dataclass(frozen=True)
    class Options:
        layer: int = field(default=0, metadata={"help": "layers that draft; 0: a quarter of the model's"})
        depth: int = field(default=4, metadata={"help": "tokens drafted at most"})
        width: int = field(default=1, metadata={"help": "choices kept at each depth"})
        head: str = field(default="auto", metadata={"help": HELP})

        def __post_init__(self) -> None:
            check_head("exit", self.head)
            if self.layer < 0 or self.depth < 1 or self.width < 1:
                given = f"layer={self.layer}, depth={self.depth}, width={self.width}"
                raise UsageError(
                    f"exit: {given} are out of range: depth and width are 1 or more, layer is not negative"
                )

    def __init__(self, options: Options, network: Network) -> None:
        layer = options.layer or max(network.num_layers // 4, 1)
        if layer >= network.num_layers:
            raise PlanError(
                f"exit: layer={layer} leaves nothing to verify with: the model has {network.num_layers} layers, "
                f"use 1 to {network.num_layers - 1}"
            )
        self.options = options
        self.head = DraftHead(options.head, network)
        self.plan = LayerPlan.until(layer)

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
        backbone = Backbone(state, self.plan, depth, self.head, self.options.width)
        return backbone.resumed(backbone.draft())

    def observe(self, record: StepRecord) -> None:
        self.head.observe(record)
