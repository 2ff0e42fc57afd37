"""SWIFT's draft: the model itself without some of its attention and MLP sublayers (arXiv 2410.06916)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..drafting import DraftState
from ..errors import PlanError, UsageError
from ..network import Network
from ..plan import LayerPlan
from ..request import Request
from ..search.found import Found, Warm
from ..search.guided import GuidedSearcher
from ..search.tuner import Tuner
from ..search.tuner_options import TunerOptions
from ..telemetry import StepRecord
from ..tree import Draft
from .chain import Backbone, room_for_depth
from .head import HELP, DraftHead, check_head
from .label import check_task
from .sizes import check_sizes
from .tuned import Learnt, Tuned

_DEPTH, _WIDTH = 4, 1  # with a given plan
_DIGITS = 9  # of a layer's number
_DEEPEST = 16  # with one that was found


class SkipDrafter:
    """The model without some of its sublayers, which it finds out while it generates, or is told (SWIFT)."""

    @dataclass(frozen=True)
    class Options:
        plan: str = field(default="", metadata={"help": "uniform: every other layer; leave out to search for a plan"})
        attn: str = field(default="", metadata={"help": "attention sublayers to skip, as 3+5+8-11"})
        mlp: str = field(default="", metadata={"help": "MLP sublayers to skip, as 3+5+8-11"})
        depth: int = field(default=0, metadata={"help": "tokens drafted at most; 0: as pays, or 4 with a given plan"})
        width: int = field(
            default=0, metadata={"help": "choices kept at each depth; 0: as pays, or 1 with a given plan"}
        )
        head: str = field(default="auto", metadata={"help": HELP})
        window: int = field(default=32, metadata={"help": "verified tokens that a plan is tried on"})
        budget: float = field(default=0.01, metadata={"help": "share of the time that the search may take"})
        loan: int = field(default=80, metadata={"help": "plain steps that it may take in advance"})
        task: str = field(default="", metadata={"help": "a label of yours: plans are kept for each"})
        keep: bool = field(default=True, metadata={"help": "begin with the plan kept on disk, and keep the one found"})

        def __post_init__(self) -> None:
            check_head("skip", self.head)
            check_sizes("skip", depth=self.depth, width=self.width)
            if self.plan not in ("", "uniform"):
                raise UsageError(f"skip: plan={self.plan!r} is not known: use plan=uniform, or attn=… and mlp=…")
            if self.plan and (self.attn or self.mlp):
                raise UsageError("skip: plan and attn/mlp contradict each other: give one or the other")
            check_task("skip", self.task)
            self.tuning()

        def tuning(self) -> TunerOptions:
            """Raises UsageError for what leaves nothing to search with."""
            try:
                return TunerOptions(self.window, self.budget, self.loan, self.depth or _DEEPEST)
            except UsageError as error:
                raise UsageError(f"skip: {error}") from error

    def __init__(self, options: Options, network: Network) -> None:
        self.options = options
        self.head = DraftHead(options.head, network)
        self.plan = _plan(options, network.num_layers)
        layers = network.num_layers
        tuner = Tuner(layers, lambda: GuidedSearcher(layers), options.tuning())
        self.tuned = None if self.plan is not None else Tuned(Learnt(tuner), self.head)

    @property
    def uses_costs(self) -> bool:
        return self.tuned is not None or self.head.uses_costs

    @property
    def memory(self) -> Learnt | None:
        """What the search knows, for the next drafter with these options to go on from."""
        return None if self.tuned is None else self.tuned.learnt

    def recall(self, memory: Learnt) -> None:
        """Go on from what another drafter's search found."""
        self.tuned = Tuned(memory, self.head)

    @property
    def task(self) -> str | None:
        """The label that the plan found is kept under; None: it is not to be kept."""
        return self.options.task if self.options.keep and self.tuned is not None else None

    @property
    def found(self) -> Found | None:
        """The plan that the search has found, where it has."""
        return None if self.tuned is None else self.tuned.learnt.found

    def begin_with(self, warm: Warm) -> None:
        """Try this plan before any other. Raises PlanError where it does not fit the model."""
        if self.tuned is not None:
            warm.plan.check(self.tuned.tuner.network_layers)
            self.tuned.tuner.warm = warm

    def admit(self, row: int, request: Request) -> None:
        if self.tuned is not None:
            self.tuned.forget(row)

    def release(self, row: int) -> None:
        self.head.release(row)
        if self.tuned is not None:
            self.tuned.forget(row)

    def propose(self, state: DraftState) -> Draft:
        options = self.options
        if self.tuned is not None:
            return self.tuned.propose(state, options.depth, options.width)
        width = options.width or _WIDTH
        depth = room_for_depth(state, options.depth or _DEPTH, width)
        if depth == 0 or self.plan is None:
            return state.nothing()
        return Backbone(state, self.plan, depth, self.head, width).draft()

    def observe(self, record: StepRecord) -> None:
        self.head.observe(record)
        if self.tuned is not None:
            self.tuned.observe(record)


def _plan(options: SkipDrafter.Options, num_layers: int) -> LayerPlan | None:
    """The plan that was given, if any."""
    if options.attn or options.mlp:
        attn, mlp = _layers(options.attn, num_layers), _layers(options.mlp, num_layers)
        return LayerPlan.skipping(num_layers, attn, mlp)
    if not options.plan:
        return None
    if num_layers < 3:
        raise PlanError(f"skip: a model of {num_layers} layers has none between its first and last to skip")
    return LayerPlan.uniform(num_layers)


def _layers(text: str, num_layers: int) -> set[int]:
    """Layer numbers written 3+5+8-11."""
    layers: set[int] = set()
    wrong = UsageError(f"skip: {text[:80]!r} does not name layers: write them as 3+5+8-11")
    if text and not text.strip("+"):
        raise wrong
    for part in filter(None, text.split("+")):
        low, _, high = part.partition("-")
        if not (part.isascii() and low.isdecimal() and (high.isdecimal() or not high)):
            raise wrong
        if max(len(low), len(high)) > _DIGITS:
            raise PlanError(f"skip: layer {part[:20]}… is not in the model: its layers are 0..{num_layers - 1}")
        if int(low) > int(high or low):
            raise wrong
        if int(high or low) >= num_layers:
            raise PlanError(f"skip: layer {high or low} is not in the model: its layers are 0..{num_layers - 1}")
        layers.update(range(int(low), int(high or low) + 1))
    return layers
