"""The engine: rows come and go, and every step drafts, verifies, commits and emits. Token ids only; no text here.

Invariant between steps: the cache holds keys and values of every token of a row except the pending one, its newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from time import perf_counter

import torch
from torch import Tensor

from .accept import AcceptanceRule, Follow, Nodes
from .cache import KVCache
from .cost import CostModel, Step
from .drafting import Drafter, DraftState, Limits, check_draft
from .errors import CapacityError, NumericsError, RequestError
from .network import Network, Run, loss_of
from .plan import LayerPlan
from .request import Request
from .row import Emission, Outcome, Row
from .sampling import RowSampler, derived_seed, widened
from .stopping import Length
from .telemetry import Sink, StepRecord, Timing
from .tree import Draft, Topology, Verified, root_only


class Engine:
    """Generates for up to ``rows`` texts of up to ``capacity`` tokens (scratch included) with one network.

    Rows are admitted and released at any time; what a row says depends on no other row and on no drafter (rule
    ``Follow``). Long prompts are taken in ``prefill_chunk`` tokens a step, while the other rows go on.
    """

    def __init__(
        self,
        network: Network,
        drafter: Drafter,
        *,
        capacity: int,
        rows: int = 1,
        rule: AcceptanceRule | None = None,
        sinks: Iterable[Sink] = (),
        prefill_chunk: int = 512,
        costs: CostModel | None = None,
    ) -> None:
        if prefill_chunk < 1:
            raise RequestError(f"prefill_chunk={prefill_chunk} takes in nothing: use 1 or more")
        self.network = network
        self.drafter = drafter
        self.rule = rule or Follow()
        self.cache = network.new_cache(rows, capacity)
        self.sinks = list(sinks)
        self.prefill_chunk = prefill_chunk
        self.costs = costs
        self.lossy = loss_of(network)  # "", or how its texts are not the model's own: in every record
        self._full = LayerPlan.full(network.num_layers)
        self._active: dict[int, Row] = {}
        self._emissions: list[Emission] = []  # of this step; of the one before too, where a drafter raised in it

    @property
    def free_rows(self) -> list[int]:
        return [row for row in range(self.cache.rows) if row not in self._active]

    @property
    def busy(self) -> bool:
        """Whether another step would do anything, or has something to hand out."""
        return bool(self._emissions) or any(not row.finished for row in self._active.values())

    def admit(self, request: Request, *, samples: int = 1, drafter: Drafter | None = None) -> list[int]:
        """Take in a text, or ``samples`` texts that share one prefill and differ in seed; returns their rows.

        Raises RequestError for what no engine could serve and CapacityError for what this one cannot (now).
        """
        self._check(request, samples)
        rows: list[Row] = []
        for sample, index in enumerate(self.free_rows[:samples]):
            sampling = replace(request.sampling, seed=derived_seed(request.sampling.seed, sample))
            row = self._new_row(index, replace(request, sampling=sampling), drafter or self.drafter)
            row.source = rows[0] if rows else None
            rows.append(row)
        try:
            for row in rows:
                row.drafter.admit(row.index, row.request)
                self._active[row.index] = row
        except BaseException:
            for row in rows:
                if row.index in self._active:
                    self.release(row.index)
            raise
        return [row.index for row in rows]

    def step(self) -> list[Emission]:
        """One chunk of prefill where due, then draft, verify, commit and emit for every row that is ready.

        What a drafter or sink raises comes through, once the rows of other drafters had their turn. Nothing is lost:
        the next step goes on from there, and hands out what this one gave. Raises UsageError for a malformed draft.
        """
        self._prefill()
        failures: list[Exception] = []
        for rows in self._groups():
            try:
                self._cycle(rows)
            except Exception as error:  # noqa: PERF203, one drafter's trouble is not the others'
                failures.append(error)
        if failures:
            raise failures[0]
        given, self._emissions = self._emissions, []
        return given

    def release(self, row: int) -> None:
        """Drop the text in ``row``, finished or not."""
        if row not in self._active:
            raise RequestError(f"row {row} holds no text: admitted rows are {sorted(self._active)}")
        text = self._active.pop(row)
        self._emissions = [emission for emission in self._emissions if emission.row != row]
        text.drafter.release(row)

    def score(self, tokens: Sequence[int]) -> Tensor:
        """[len(tokens) - 1] log-probabilities the model gives each token after the first. Touches no row.

        Raises RequestError for fewer than two tokens, more than the context holds, or tokens the model does not have.
        """
        if len(tokens) < 2:
            raise RequestError(
                f"{len(tokens)} tokens have no scores: give two or more, the first has nothing before it"
            )
        for part in (tokens[:-1], tokens[-1:]):
            Request(part).check(self.network.vocab_size, self.network.context)
        cache = self.network.new_cache(1, len(tokens))
        cache.reset(0, len(tokens))
        parts = []
        for start in range(0, len(tokens) - 1, self.prefill_chunk):
            chunk = tokens[start : min(start + self.prefill_chunk, len(tokens) - 1)]
            logprobs = widened(self.network.logits(self._run_chain(chunk, 0, cache))[0]).log_softmax(-1)
            targets = torch.tensor(tokens[start + 1 : start + 1 + len(chunk)], device=logprobs.device)
            parts.append(logprobs.gather(-1, targets[:, None])[:, 0])
        return torch.cat(parts)

    # admission

    def _check(self, request: Request, samples: int) -> None:
        request.check(self.network.vocab_size, self.network.context)
        if samples < 1:
            raise RequestError(f"samples={samples} asks for no text: use 1 or more")
        if samples > 1 and request.processors is not None:
            raise RequestError(f"samples={samples} cannot share one object of processors: admit a request for each")
        if len(self.free_rows) < samples:
            free, rows = len(self.free_rows), self.cache.rows
            raise CapacityError(f"{samples} rows asked for, {free} of {rows} are free: release some or use more rows")
        needed = min(len(request.prompt) + request.max_new_tokens, self.network.context)
        if needed > self.cache.capacity:
            raise CapacityError(
                f"prompt and output need {needed} slots, a row of this engine has {self.cache.capacity}"
            )

    def _new_row(self, index: int, request: Request, drafter: Drafter) -> Row:
        network = self.network
        constraint = request.constraint.fork() if request.constraint is not None else None
        sampler = RowSampler(request.sampling, network.vocab_size, network.device, constraint, request.processors)
        sampler.start(request.prompt)
        sampler.advance(request.generated)
        room = network.context - len(request.prompt)
        stops = [*request.stops, Length(request.max_new_tokens), Length(room, "context")]
        self.cache.reset(index, len(request.prompt))
        tokens = [*request.prompt, *request.generated]
        return Row(index, request, drafter, sampler, tokens, stops, min(request.max_new_tokens, room))

    # prefill

    def _ready(self, row: Row) -> bool:
        return self.cache.lengths[row.index] == len(row.tokens) - 1

    def _prefill(self) -> None:
        for row in self._active.values():
            began = perf_counter()
            if row.source is not None:
                self._take_over(row, row.source)
            elif not row.finished and not self._ready(row):
                start = self.cache.lengths[row.index]
                chunk = row.tokens[start : min(start + self.prefill_chunk, len(row.tokens) - 1)]
                self._run_chain(chunk, row.index, self.cache)
                row.prefill_s += perf_counter() - began

    def _take_over(self, row: Row, source: Row) -> None:
        """Copy the prefill of a sibling sample once it is there; go alone where the sibling left before that."""
        prefilled = len(row.tokens) - 1
        gone = self._active.get(source.index) is not source
        if not gone and self.cache.lengths[source.index] >= prefilled:
            self.cache.fork(source.index, row.index, prefilled)
        if gone or self._ready(row):
            row.source = None

    def _run_chain(self, tokens: Sequence[int], row: int, cache: KVCache) -> Tensor:
        """Run and commit consecutive known tokens [N]; returns hidden [1, N, H]."""
        placement = cache.place(Topology.chain(len(tokens)), [row])
        x = torch.tensor([tokens], device=self.network.device)
        hidden = self.network.run(x, placement, cache, self._full).hidden
        cache.commit([row], [range(len(tokens))])
        return hidden

    # the cycle

    def _groups(self) -> list[list[Row]]:
        """The rows that are ready, together where they share a drafter, as they lie in the cache: in the order in which
        they came, consecutive rows would not look so, and be copied for every layer.
        """
        groups: dict[int, list[Row]] = {}
        for _, row in sorted(self._active.items()):
            if not row.finished and row.source is None and self._ready(row):
                groups.setdefault(id(row.drafter), []).append(row)
        return list(groups.values())

    def _cycle(self, rows: list[Row]) -> None:
        began = perf_counter()
        draft = rows[0].drafter.propose(self._state(rows))
        check_draft(draft, [row.tokens[-1] for row in rows], self.network)
        drafted, searched = perf_counter(), draft.search_s
        run = self._verify(draft, rows)
        if self._spoilt(draft, run.hidden, rows):
            draft = root_only(torch.tensor([row.tokens[-1] for row in rows], device=self.network.device))
            run = self._verify(draft, rows)
        logits = self.network.logits(run.hidden)
        if self.costs is not None:
            logits[0, 0, 0].item()  # a GPU is only asked to run so far: wait, or its time is no verification's
        verified = perf_counter()
        self._learn(draft, rows, 1e3 * (verified - drafted))
        nodes = _nodes(draft)
        outcomes = [row.outcome(n, logit, self.rule) for row, n, logit in zip(rows, nodes, logits, strict=True)]
        failures = [row.take(outcome) for row, outcome in zip(rows, outcomes, strict=True)]
        self.cache.commit([row.index for row in rows], [[0, *o.path] if o.tokens else [] for o in outcomes])
        for row, outcome in zip(rows, outcomes, strict=True):
            if isinstance(outcome.error, NumericsError):
                self.cache.wipe(row.index)
        ended = perf_counter()
        share = 1 / len(rows)
        drafting = drafted - began - searched
        timing = Timing(drafting * share, (verified - drafted) * share, searched * share, (ended - verified) * share)
        records = [
            row.record(n, outcome, timing, self.lossy) for row, n, outcome in zip(rows, nodes, outcomes, strict=True)
        ]
        self._emissions += map(_emission, outcomes, records)
        if draft.feedback is not None:
            for place, outcome in enumerate(outcomes):
                draft.feedback.tell(_verified(place, outcome, run))
        for row, record in zip(rows, records, strict=True):
            self._report(row, record)
        for failure in filter(None, failures):
            raise failure

    def _state(self, rows: list[Row]) -> DraftState:
        indexes = tuple(row.index for row in rows)
        longest = max(self.cache.lengths[index] for index in indexes)
        limits = Limits(self.cache.capacity - longest, tuple(row.useful_depth for row in rows))
        history = tuple(tuple(row.tokens) for row in rows)
        samplers = tuple(row.sampler for row in rows)
        return DraftState(indexes, history, self.cache, self.network, limits, samplers, self.rule, self.costs)

    def _verify(self, draft: Draft, rows: list[Row]) -> Run:
        """The target's hidden states [B, N, H]; what drafting left in scratch is overwritten or resumed from."""
        placement = self.cache.place(draft.topology, [row.index for row in rows])
        taps = () if draft.feedback is None else draft.feedback.taps
        if draft.resume is None:
            return self.network.run(draft.tokens, placement, self.cache, self._full, taps)
        rest = LayerPlan.rest(draft.resume.layer, self.network.num_layers)
        return self.network.run(draft.resume.hidden, placement, self.cache, rest, taps)

    def _spoilt(self, draft: Draft, hidden: Tensor, rows: list[Row]) -> bool:
        """Whether a draft made numbers that are not finite: they reach even nodes that must not see them.

        A masked slot has weight 0, and 0 x NaN is NaN. The draft is then forgotten, and its scratch overwritten.
        """
        alone = len(draft.topology) == 1 and len(rows) == 1  # sees no scratch at all
        if alone or bool(hidden.isfinite().all()):
            return False
        for row in rows:
            self.cache.clear(row.index)
        return True

    def _learn(self, draft: Draft, rows: list[Row], ms: float) -> None:
        """Tell the cost model what a verification took."""
        if self.costs is not None:
            start = 0 if draft.resume is None else draft.resume.layer
            plan = LayerPlan.rest(start, self.network.num_layers)
            context = max(self.cache.lengths[row.index] for row in rows)
            self.costs.observe(Step(plan, len(draft.topology), len(rows), context), ms)

    def _report(self, row: Row, record: StepRecord) -> None:
        row.drafter.observe(record)
        for sink in self.sinks:
            sink.record(record)


def _verified(place: int, outcome: Outcome, run: Run) -> Verified:
    nodes = [0, *outcome.path][: len(outcome.tokens)]
    return Verified(place, nodes, outcome.tokens, {layer: tap[place, nodes] for layer, tap in run.taps.items()})


def _emission(outcome: Outcome, record: StepRecord) -> Emission:
    return Emission(record.row, outcome.tokens, outcome.logprobs, outcome.finish_reason, record, outcome.error)


def _nodes(draft: Draft) -> list[Nodes]:
    """A draft row by row, on the host."""
    tokens, live = draft.tokens.tolist(), draft.live.tolist()
    probs = draft.probs if draft.probs is not None else [None] * len(tokens)
    return [Nodes(draft.topology, *row) for row in zip(tokens, live, probs, strict=True)]
