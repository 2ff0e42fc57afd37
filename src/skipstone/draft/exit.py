"""LayerSkip's draft: the first E layers, whose work verification takes over instead of repeating (arXiv 2404.16710)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..drafting import DraftState
from ..errors import PlanError, UsageError
from ..network import Network
from ..plan import LayerPlan
from ..request import Request
from ..search.exit_finder import ExitFinder, ExitOptions
from ..search.preset import ExitPreset
from ..telemetry import StepRecord
from ..tree import Draft
from .chain import Backbone, room_for_depth
from .dynamic_exit import DynamicExit, LearntExits
from .head import HELP, DraftHead, check_head
from .label import check_task
from .sizes import check_sizes

_DEPTH, _WIDTH = 4, 1  # with a given layer
_DEEPEST = 16  # as pays


class ExitDrafter:
    """The first layers, as many as pay or are given, final norm and head there (LayerSkip); verification resumes."""

    @dataclass(frozen=True)
    class Options:
        layer: int = field(default=0, metadata={"help": "layers that draft; 0: those that pay most at the moment"})
        depth: int = field(default=0, metadata={"help": "tokens drafted at most; 0: as pays, or 4 with a given layer"})
        width: int = field(
            default=0, metadata={"help": "choices kept at each depth at most; 0: as pays, or 1 with a given layer"}
        )
        head: str = field(default="auto", metadata={"help": HELP})
        window: int = field(default=16, metadata={"help": "tokens that exits are compared on"})
        budget: float = field(default=0.01, metadata={"help": "share of the time that comparing exits may take"})
        task: str = field(default="", metadata={"help": "draft as the preset of this label, if one is kept"})

        def __post_init__(self) -> None:
            check_head("exit", self.head)
            check_sizes("exit", layer=self.layer, depth=self.depth, width=self.width)
            check_task("exit", self.task)
            if self.task and self.layer:
                raise UsageError(
                    f"exit: task={self.task} stands for a preset with a layer of its own: leave out layer={self.layer}"
                )
            self.finding()

        def finding(self) -> ExitOptions:
            """Raises UsageError for what leaves nothing to choose by."""
            return ExitOptions(self.window, self.budget, deepest=self.depth or _DEEPEST)

    def __init__(self, options: Options, network: Network) -> None:
        layers = network.num_layers
        _check_layer(options.layer, layers)
        self.options = options
        self.head = DraftHead(options.head, network)
        self.plan = LayerPlan.until(options.layer) if options.layer else None
        self.dynamic = None if options.layer else self._dynamic(_learnt(layers, range(1, layers), False, options))

    def trained_for(self, exits: Sequence[int]) -> None:
        """Choose from these exits, which the model was trained for; without any, from all. Forgets what was found."""
        layers = self.head.network.num_layers
        known = [layer for layer in exits if 0 < layer < layers]
        if self.dynamic is not None and known:
            self.dynamic = self._dynamic(_learnt(layers, known, True, self.options))

    @property
    def preset_task(self) -> str:
        """The label of the preset asked for, if any."""
        return self.options.task

    def use(self, preset: ExitPreset) -> None:
        """Draft as the preset says, and choose nothing. Raises PlanError where it does not fit the model."""
        _check_layer(preset.layer, self.head.network.num_layers)
        self.options = replace(
            self.options, task="", layer=preset.layer, depth=preset.depth, width=preset.width, head=preset.head
        )
        self.head = DraftHead(preset.head, self.head.network)
        self.plan, self.dynamic = preset.plan, None

    def _dynamic(self, learnt: LearntExits) -> DynamicExit:
        return DynamicExit(learnt, self.head, self.options.depth, self.options.width)

    @property
    def uses_costs(self) -> bool:
        return self.dynamic is not None or self.head.uses_costs

    @property
    def memory(self) -> LearntExits | None:
        """What is known of the exits, for the next drafter with these options to go on from."""
        return None if self.dynamic is None else self.dynamic.learnt

    def recall(self, memory: LearntExits) -> None:
        """Go on from what another drafter found."""
        self.dynamic = self._dynamic(memory)

    def admit(self, row: int, request: Request) -> None:
        pass

    def release(self, row: int) -> None:
        self.head.release(row)
        if self.dynamic is not None:
            self.dynamic.forget(row)

    def propose(self, state: DraftState) -> Draft:
        if self.dynamic is not None:
            return self.dynamic.propose(state)
        width = self.options.width or _WIDTH
        depth = room_for_depth(state, self.options.depth or _DEPTH, width)
        if depth == 0 or self.plan is None:
            return state.nothing()
        backbone = Backbone(state, self.plan, depth, self.head, width)
        return backbone.resumed(backbone.draft())

    def observe(self, record: StepRecord) -> None:
        self.head.observe(record)
        if self.dynamic is not None:
            self.dynamic.observe(record)


def _learnt(layers: int, exits: Sequence[int], trained: bool, options: ExitDrafter.Options) -> LearntExits:
    return LearntExits(ExitFinder(layers, tuple(sorted(set(exits))), trained, options.finding()))


def _check_layer(layer: int, layers: int) -> None:
    """Raises PlanError for an exit that leaves nothing to verify with."""
    if layer >= layers:
        raise PlanError(
            f"exit: layer={layer} leaves nothing to verify with: the model has {layers} layers, use 1 to {layers - 1}"
        )
