"""The contract of ``Drafter``, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..cache import KVCache
from ..draft.none import NoDrafter
from ..drafting import Drafter, DraftState
from ..engine import Engine
from ..network import Network
from ..request import Request
from ..sampling import SamplingParams
from ..telemetry import StepRecord
from ..tree import NO_PARENT, Draft, Topology
from .claim import claim
from .tiny import tiny_network


def plain_text(network: Network, request: Request) -> list[int]:
    """What plain decoding says to a request, alone in an engine of one row: the text every drafter has to reproduce."""
    engine = Engine(network, NoDrafter(NoDrafter.Options(), network), capacity=_slots(network, [request]))
    engine.admit(request)
    text: list[int] = []
    while engine.busy:
        for emission in engine.step():
            if emission.error is not None:
                raise emission.error
            text += emission.tokens
    return text


def _slots(network: Network, requests: Sequence[Request]) -> int:
    """The smallest capacity that serves the requests."""
    return min(max(len(r.prompt) + r.max_new_tokens for r in requests), network.context)


@dataclass(frozen=True)
class _Visit:
    """A request, released when it has given ``leave_at`` tokens (or has ended)."""

    request: Request
    leave_at: int = 1 << 30


_SAMPLINGS = (
    SamplingParams(),
    SamplingParams(temperature=0.8, seed=1),
    SamplingParams(temperature=1.2, top_k=20, top_p=0.9, repetition_penalty=1.2, frequency_penalty=0.3, seed=2),
)


def check_drafter(make: Callable[[Network], Drafter], network: Network | None = None, *, brief: bool = False) -> None:
    """Raise AssertionError with a sentence if the drafter that ``make`` builds breaks the contract of ``Drafter``.

    Decodes texts that come and go over rows of unequal length, in a cache with no slot to spare, and checks every draft
    as well as the texts, which must be those of plain decoding. ``network`` is a tiny one unless given. ``brief`` does
    a fraction of it, for checks with many networks.
    """
    network = network or tiny_network(agreeing=0.9)
    for sampling in _SAMPLINGS[1:2] if brief else _SAMPLINGS:
        visits = [replace(v, request=replace(v.request, sampling=sampling)) for v in _visits(network, brief)]
        plain = [plain_text(network, visit.request) for visit in visits]
        for rows in (2,) if brief else (1, 3):
            drafter = _Watched(make(network))
            for visit, text, want in zip(visits, _decode(network, drafter, visits, rows), plain, strict=True):
                drafter.claim_text(visit, text, want)


def _visits(network: Network, brief: bool) -> list[_Visit]:
    """Prompts with and without repetition, budgets from 1 upwards, texts that leave early."""
    ids = [token % network.vocab_size for token in range(3, 100, 7)]
    if brief:
        return [
            _Visit(Request((ids[:3] * 3)[:8], 8)),
            _Visit(Request(ids[4:5], 1)),
            _Visit(Request(ids, 9), leave_at=4),
        ]
    return [
        _Visit(Request((ids[:3] * 3)[:8], max_new_tokens=14)),
        _Visit(Request(ids[4:5], max_new_tokens=1)),
        _Visit(Request(ids[5:10], max_new_tokens=20), leave_at=4),
        _Visit(Request(ids[1:2] * 6, max_new_tokens=9)),
        _Visit(Request(ids, max_new_tokens=6)),
        _Visit(Request(ids[6:8], max_new_tokens=2)),
        _Visit(Request(ids[2:5] * 2, max_new_tokens=20)),
    ]


def _decode(network: Network, drafter: Drafter, visits: Sequence[_Visit], rows: int) -> list[list[int]]:
    """The texts of all visits, each admitted as soon as a row is free."""
    engine = Engine(network, drafter, rows=rows, capacity=_slots(network, [v.request for v in visits]), prefill_chunk=3)
    texts: list[list[int]] = []
    served: dict[int, int] = {}  # visit by row
    while len(texts) < len(visits) or served:
        while engine.free_rows and len(texts) < len(visits):
            [row] = engine.admit(visits[len(texts)].request)
            served[row] = len(texts)
            texts.append([])
        for emission in engine.step():
            claim(emission.error is None, f"decoding ended with an error: {emission.error}")
            text = texts[served[emission.row]]
            text += emission.tokens
            if emission.finish_reason or len(text) >= visits[served[emission.row]].leave_at:
                engine.release(emission.row)
                del served[emission.row]
    return texts


class _Watched:
    """Passes everything on to a drafter and checks what it answers."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter

    def admit(self, row: int, request: Request) -> None:
        self.drafter.admit(row, request)

    def release(self, row: int) -> None:
        self.drafter.release(row)

    def observe(self, record: StepRecord) -> None:
        self.drafter.observe(record)

    def propose(self, state: DraftState) -> Draft:
        cache = state.cache
        lengths = list(cache.lengths)
        committed = [_committed(cache, row, length) for row, length in enumerate(lengths)]
        draft = self.drafter.propose(state)
        self._claim(cache.lengths == lengths, f"commits or truncates: lengths {lengths} became {cache.lengths}")
        for row, (length, before) in enumerate(zip(lengths, committed, strict=True)):
            self._claim(
                torch.equal(before, _committed(cache, row, length)), f"writes into committed slots of row {row}"
            )
        self._claim_shapes(draft, state)
        self._claim_extras(draft, state)
        for b in range(len(state.rows)):
            self._claim_row(b, draft, state)
        return draft

    def claim_text(self, visit: _Visit, text: list[int], plain: list[int]) -> None:
        """A text that left early is at least as long as it had to be, and so far that of plain decoding."""
        expected = plain[: max(len(text), visit.leave_at)]
        request = visit.request
        self._claim(
            text == expected,
            f"changes the text: after prompt {list(request.prompt)} with {request.sampling} plain decoding says "
            f"{expected}, with this drafter it is {text}",
        )

    def _claim_shapes(self, draft: Draft, state: DraftState) -> None:
        B, N, allowed = len(state.rows), len(draft.topology), state.limits.nodes
        self._claim(draft.tokens.shape[0] == B, f"drafts for {draft.tokens.shape[0]} rows, but there are {B}")
        self._claim(draft.tokens.dtype == torch.int64, f"gives tokens as {draft.tokens.dtype}, not torch.int64")
        self._claim(allowed >= N, f"drafts {N} nodes, but limits.nodes is {allowed}")
        parents = draft.topology.parents
        self._claim(parents.count(NO_PARENT) == 1, f"drafts a tree of more than one root: {parents}")

    def _claim_row(self, b: int, draft: Draft, state: DraftState) -> None:
        topology, tokens, live = draft.topology, draft.tokens[b].tolist(), draft.live[b].tolist()
        outside = [token for token in tokens if not 0 <= token < state.network.vocab_size]
        self._claim(not outside, f"gives tokens that are not in the vocabulary: {outside} (fillers must be, too)")
        self._claim(tokens[0] == state.pending[b], "must give the pending token as node 0 of each row")
        self._claim(live[0], "must mark node 0 of each row as live")
        deepest = max(depth for depth, alive in zip(topology.depth, live, strict=True) if alive)
        useful = max(state.limits.depths[b], 0)
        self._claim(deepest <= useful, f"marks depth {deepest} as live where the row has use for {useful} tokens only")
        for children in topology.children:
            siblings = [tokens[child] for child in children if live[child]]
            self._claim(len(siblings) == len(set(siblings)), f"gives one node the same child twice: {siblings}")

    def _claim_extras(self, draft: Draft, state: DraftState) -> None:
        B, N = draft.tokens.shape
        if draft.resume is not None:
            shape, layer = tuple(draft.resume.hidden.shape[:2]), draft.resume.layer
            L = state.network.num_layers
            self._claim(shape == (B, N), f"gives {shape} hidden states to resume from, but drafts {(B, N)} nodes")
            self._claim(0 < layer <= L, f"resumes at layer {layer}: use 1 to {L}")
        if draft.probs is not None:
            shape, want = tuple(draft.probs.shape), (B, N - 1, state.network.vocab_size)
            self._claim(draft.topology == Topology.chain(N), "gives probabilities for a tree: they are for chains only")
            self._claim(shape == want, f"gives probabilities of shape {shape}, not {want}")

    def _claim(self, true: bool, sentence: str) -> None:
        claim(true, f"{type(self.drafter).__name__} {sentence}")


def _committed(cache: KVCache, row: int, length: int) -> Tensor:
    return torch.cat([buffer[row, :, :length].flatten() for buffer in (*cache.keys, *cache.values)])
