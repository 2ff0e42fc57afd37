"""Decoding texts that come and go, and a drafter that tries everything to change them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import torch
from versions import rope

from skipstone.draft.none import NoDrafter
from skipstone.drafting import Drafter, DraftState
from skipstone.engine import Engine
from skipstone.errors import SkipstoneError
from skipstone.hf.fused import FusedNetwork
from skipstone.hf.network import HFNetwork
from skipstone.hf.packing import fuse
from skipstone.kernels.probe import kernel_for
from skipstone.network import Network
from skipstone.plan import LayerPlan
from skipstone.request import Request
from skipstone.row import Logprob
from skipstone.sampling import derived_seed
from skipstone.telemetry import StepRecord
from skipstone.testing import tiny_network
from skipstone.tree import Draft, Resume, Topology

VOCAB = 64
SLOTS = 40  # of every row in these tests

_LONG = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [2.0, 3.0, 4.0, 6.0]}
NETWORKS = {
    "llama": {"layers": 4, "agreeing": 0.85},
    "windowed": {"model_type": "mistral", "layers": 3, "agreeing": 0.8, "sliding_window": 3},
    "dynamic": dict(layers=3, agreeing=0.8, max_position_embeddings=12, **rope("dynamic", factor=6.0)),
    "longrope": dict(
        layers=3, agreeing=0.8, **rope("longrope", original_max_position_embeddings=12, factor=8.0, **_LONG)
    ),
}


# the same run by fused blocks, over weights that are not packed: float64 has no packed kernels
FUSED = {"fused": "llama", "fused, windowed": "windowed", "fused, longrope": "longrope"}


@cache
def network(name: str = "llama") -> HFNetwork | FusedNetwork:
    """One of NETWORKS or FUSED, built once."""
    if name in FUSED:
        return fuse(tiny_network(**NETWORKS[FUSED[name]]), kernel_for("stock"))
    return tiny_network(**NETWORKS[name])


def plain(network: Network) -> NoDrafter:
    return NoDrafter(NoDrafter.Options(), network)


@dataclass(frozen=True)
class Visit:
    """A request that arrives after ``wait`` steps (as soon as rows are free), and leaves after ``leave_at`` tokens."""

    request: Request
    samples: int = 1
    drafter: Drafter | None = None
    wait: int = 0
    leave_at: int = 1 << 30

    @property
    def requests(self) -> list[Request]:
        """The request of each sample, alone."""
        seeds = [derived_seed(self.request.sampling.seed, n) for n in range(self.samples)]
        return [replace(self.request, sampling=replace(self.request.sampling, seed=seed)) for seed in seeds]


@dataclass
class Text:
    """What one sample of one visit was given."""

    visit: Visit
    tokens: list[int] = field(default_factory=list)
    logprobs: list[Logprob] = field(default_factory=list)
    reason: str | None = None
    error: SkipstoneError | None = None


def decode(engine: Engine, visits: Sequence[Visit]) -> list[Text]:
    """Serve all visits; texts in order of visit and sample."""
    texts: list[Text] = []
    rows: dict[int, Text] = {}
    waiting = list(visits)
    step = 0
    while waiting or rows:
        while waiting and waiting[0].wait <= step and len(engine.free_rows) >= waiting[0].samples:
            visit = waiting.pop(0)
            new = [Text(visit) for _ in range(visit.samples)]
            rows.update(
                zip(engine.admit(visit.request, samples=visit.samples, drafter=visit.drafter), new, strict=True)
            )
            texts += new
        for emission in engine.step():
            text = rows[emission.row]
            text.tokens += emission.tokens
            text.logprobs += emission.logprobs or []
            text.reason, text.error = emission.finish_reason, emission.error
            if text.reason or len(text.tokens) >= text.visit.leave_at:
                engine.release(emission.row)
                del rows[emission.row]
        step += 1
    return texts


def alone(network: Network, request: Request, drafter: Drafter | None = None) -> Text:
    """Decode one request in an engine of its own, plainly unless a drafter is given."""
    return decode(Engine(network, drafter or plain(network), capacity=SLOTS), [Visit(request)])[0]


def spoil_scratch(state: DraftState, value: float = 1e6) -> None:
    """Fill everything above the committed slots of the rows with a large finite number."""
    for row in state.rows:
        for buffer in (*state.cache.keys, *state.cache.values):
            buffer[row, :, state.cache.lengths[row] :] = value


class RandomDrafter:
    """Random trees of random tokens, spoilt scratch, fillers anywhere; ``peek`` lets it plant tokens that are right.

    Sometimes it hands over hidden states to resume from, as an exit drafter does.
    """

    def __init__(self, network: Network, seed: int, peek: Callable[[Request], list[int]] | None = None) -> None:
        self.rng = random.Random(seed)
        self.network = network
        self.peek = peek
        self.plain: dict[int, list[int]] = {}
        self.prompts: dict[int, int] = {}

    def admit(self, row: int, request: Request) -> None:
        self.plain[row] = self.peek(request) if self.peek else []
        self.prompts[row] = len(request.prompt)

    def release(self, row: int) -> None:
        del self.plain[row], self.prompts[row]

    def observe(self, record: StepRecord) -> None:
        assert record.row in self.plain

    def propose(self, state: DraftState) -> Draft:
        spoil_scratch(state)
        nodes = self.rng.randint(1, min(state.limits.nodes, 9))
        topology = Topology((-1, *(self._parent(node) for node in range(1, nodes))))
        tokens = torch.tensor([self._tokens(b, topology, state) for b in range(len(state.rows))])
        live = torch.tensor([self._live(depth, topology) for depth in state.limits.depths])
        return Draft(topology, tokens, live, resume=self._resume(topology, tokens, state))

    def _parent(self, node: int) -> int:
        return node - 1 if self.rng.random() < 0.6 else self.rng.randrange(node)

    def _tokens(self, b: int, topology: Topology, state: DraftState) -> list[int]:
        """Siblings differ; where the path so far is right, the next token is often planted."""
        row, history = state.rows[b], state.history[b]
        rest = self.plain[row][len(history) - self.prompts[row] :]
        tokens = [history[-1]] + [-1] * (len(topology) - 1)
        right = {0}
        for parent, children in enumerate(topology.children):
            depth = topology.depth[parent]
            choices = self.rng.sample(range(self.network.vocab_size), len(children))
            if parent in right and depth < len(rest) and children and self.rng.random() < 0.8:
                if rest[depth] not in choices:
                    choices[self.rng.randrange(len(choices))] = rest[depth]
                right.add(children[choices.index(rest[depth])])
            for child, token in zip(children, choices, strict=True):
                tokens[child] = token
        return tokens

    def _live(self, depth: int, topology: Topology) -> list[bool]:
        return [d == 0 or (d <= depth and self.rng.random() < 0.9) for d in topology.depth]

    def _resume(self, topology: Topology, tokens: torch.Tensor, state: DraftState) -> Resume | None:
        layer = self.rng.randint(0, self.network.num_layers)
        if layer == 0:
            return None
        placement = state.cache.place(topology, state.rows)
        run = self.network.run(tokens, placement, state.cache, LayerPlan.until(layer))
        return Resume(run.hidden, layer)
