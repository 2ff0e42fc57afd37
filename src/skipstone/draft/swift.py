"""SWIFT as the paper has it (arXiv 2410.06916), every constant an option: what the default is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..drafting import DraftState
from ..errors import UsageError
from ..network import Network
from ..plan import LayerPlan
from ..request import Request
from ..search.paper import PaperOptions, PaperTuner
from ..search.sublayer import count_at, searchable
from ..telemetry import StepRecord
from ..tree import Draft
from .bands import Bands
from .chain import Backbone, room_for_depth
from .confidence import BelowThreshold
from .head import HELP, DraftHead, check_head


class SwiftDrafter:
    """The model without some of its sublayers, found out as the SWIFT paper does; to compare ``skip`` with."""

    @dataclass(frozen=True)
    class Options:
        r: float = field(default=0.45, metadata={"help": "share of the sublayers that is skipped, 0 to 0.9"})
        gamma: int = field(default=32, metadata={"help": "verified tokens that a candidate is tried on"})
        beta: int = field(default=25, metadata={"help": "every how manieth candidate is Bayesian; 0: all are random"})
        kappa: float = field(
            default=2.5, metadata={"help": "what an unknown is worth to Bayesian candidates, 0 or more"}
        )
        alpha: float = field(default=1e-2, metadata={"help": "variance of a matchness by chance, to the same, above 0"})
        candidates: int = field(default=1000, metadata={"help": "tried at most"})
        patience: int = field(default=300, metadata={"help": "candidates without improvement that end the search"})
        tolerance: float = field(default=0.95, metadata={"help": "matchness above which the search ends"})
        epsilon: float = field(
            default=0.8, metadata={"help": "drafting stops at a token less probable; 0: it does not"}
        )
        depth: int = field(default=25, metadata={"help": "tokens drafted at most"})
        bands: str = field(
            default="10+5+3+1", metadata={"help": "choices kept, by how sure the draft is; off: one, always"}
        )
        edges: str = field(default="0.5+0.8+0.95", metadata={"help": "probabilities between the bands"})
        seed: int = field(default=0, metadata={"help": "of the random candidates"})
        head: str = field(default="full", metadata={"help": HELP})

        def __post_init__(self) -> None:
            check_head("swift", self.head)
            if self.depth < 1 or not 0 <= self.epsilon <= 1:
                given = f"depth={self.depth} and epsilon={self.epsilon}"
                raise UsageError(f"swift: {given}: use 1 or more, and a probability from 0 to 1")
            try:
                self.search()
                self.widths()
            except UsageError as error:
                raise UsageError(f"swift: {error}") from None

        def search(self) -> PaperOptions:
            ends = (self.candidates, self.patience, self.tolerance)
            return PaperOptions(self.r, self.gamma, self.beta, *ends, self.seed, self.kappa, self.alpha)

        def widths(self) -> Bands | None:
            return Bands.read(self.bands, self.edges)

    def __init__(self, options: Options, network: Network) -> None:
        self.options = options
        self.head = DraftHead(options.head, network)
        self.bands = options.widths()
        self.tuner = PaperTuner(network.num_layers, options.search())
        self.notes = _notes(network.num_layers, options.r)

    @property
    def uses_costs(self) -> bool:
        return self.head.uses_costs

    @property
    def memory(self) -> PaperTuner:
        """What the search knows, for the next drafter with these options to go on from."""
        return self.tuner

    def recall(self, memory: PaperTuner) -> None:
        """Go on from what another drafter's search found."""
        self.tuner = memory

    def admit(self, row: int, request: Request) -> None:
        pass

    def release(self, row: int) -> None:
        self.head.release(row)
        self.tuner.release(row)

    def propose(self, state: DraftState) -> Draft:
        with self.tuner.lock:
            searched, plan = self.tuner.work(state), self.tuner.plan
        draft = state.nothing() if plan is None else self._draft(state, plan)
        return replace(draft, search_s=searched)

    def _draft(self, state: DraftState, plan: LayerPlan) -> Draft:
        options = self.options
        depth = room_for_depth(state, options.depth, width=1)
        if depth == 0:
            return state.nothing()
        enough = BelowThreshold(options.epsilon)
        return Backbone(state, plan, depth, self.head, enough=enough, bands=self.bands).draft(ends=enough.ends)

    def observe(self, record: StepRecord) -> None:
        self.head.observe(record)
        with self.tuner.lock:
            self.tuner.observe(record)


def _notes(num_layers: int, ratio: float) -> list[str]:
    """What a user would not expect of it, a line each."""
    if count_at(num_layers, ratio):
        return ["swift: tries a candidate at every step, which is slow until its search ends; to draft fast, use skip"]
    parts = len(searchable(num_layers))
    return [f"swift: of {num_layers} layers {parts} sublayers may be skipped, and r={ratio} of them is none: no drafts"]
