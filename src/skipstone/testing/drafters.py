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


def check_drafter(make: Callable[[Network], Drafter], network: Network | None = None) -> None:
    """Raise AssertionError with a sentence if the drafter that ``make`` builds breaks the contract of ``Drafter``.

    Decodes texts that come and go over rows of unequal length, in a cache with no slot to spare, and checks every draft
    as well as the texts, which must be those of plain decoding. ``network`` is a tiny one unless given.
    """
    network = network or tiny_network(agreeing=0.9)
    for sampling in _SAMPLINGS:
        visits = [replace(visit, request=replace(visit.request, sampling=sampling)) for visit in _visits(network)]
        plain = [plain_text(network, visit.request) for visit in visits]
        for rows in (1, 3):
            drafter = _Watched(make(network))
            for visit, text, want in zip(visits, _decode(network, drafter, visits, rows), plain, strict=True):
                _check_text(visit, text, want, drafter.name)


def _visits(network: Network) -> list[_Visit]:
    """Prompts with and without repetition, budgets from 1 upwards, texts that leave early."""
    ids = [token % network.vocab_size for token in range(3, 100, 7)]
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
            assert emission.error is None, f"decoding ended with an error: {emission.error}"
            text = texts[served[emission.row]]
            text += emission.tokens
            if emission.finish_reason or len(text) >= visits[served[emission.row]].leave_at:
                engine.release(emission.row)
                del served[emission.row]
    return texts


def _check_text(visit: _Visit, text: list[int], want: list[int], name: str) -> None:
    expected = want[: max(len(text), visit.leave_at)]
    assert text == expected, (
        f"{name} changes the text: after prompt {list(visit.request.prompt)} with {visit.request.sampling} "
        f"plain decoding says {expected}, with this drafter it is {text}"
    )


class _Watched:
    """Passes everything on to a drafter and checks what it answers."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.name = type(drafter).__name__

    def admit(self, row: int, request: Request) -> None:
        self.drafter.admit(row, request)

    def release(self, row: int) -> None:
        self.drafter.release(row)

    def observe(self, record: StepRecord) -> None:
        self.drafter.observe(record)

    def propose(self, state: DraftState) -> Draft:
        cache = state.cache
        lengths, history = list(cache.lengths), [list(tokens) for tokens in state.history]
        committed = [_committed(cache, row, length) for row, length in enumerate(lengths)]
        draft = self.drafter.propose(state)
        assert cache.lengths == lengths, f"{self.name} commits or truncates: lengths {lengths} became {cache.lengths}"
        assert [list(tokens) for tokens in state.history] == history, f"{self.name} changes the history it is shown"
        for row, (length, before) in enumerate(zip(lengths, committed, strict=True)):
            after = _committed(cache, row, length)
            assert torch.equal(before, after), f"{self.name} writes into committed slots of row {row}"
        _check_draft(draft, state, self.name)
        return draft


def _committed(cache: KVCache, row: int, length: int) -> Tensor:
    return torch.cat([buffer[row, :, :length].flatten() for buffer in (*cache.keys, *cache.values)])


def _check_draft(draft: Draft, state: DraftState, name: str) -> None:
    topology, tokens, live = draft.topology, draft.tokens.tolist(), draft.live.tolist()
    B, N = len(state.rows), len(topology)
    assert tuple(draft.tokens.shape) == (B, N), f"{name} drafts for {len(tokens)} rows, but there are {B}"
    assert draft.tokens.dtype == torch.int64, f"{name} gives tokens as {draft.tokens.dtype}, not torch.int64"
    assert N <= state.limits.nodes, f"{name} drafts {N} nodes, but limits.nodes is {state.limits.nodes}"
    assert topology.parents.count(NO_PARENT) == 1, f"{name} drafts a tree of more than one root: {topology.parents}"
    vocabulary = range(state.network.vocab_size)
    outside = [t for row in tokens for t in row if t not in vocabulary]
    assert not outside, f"{name} gives token {outside[:1]}, which no vocabulary of {len(vocabulary)} has (fillers too)"
    for b, pending in enumerate(state.pending):
        assert tokens[b][0] == pending and live[b][0], f"{name}: node 0 of a row must be its pending token, and live"
        deepest = max(depth for depth, alive in zip(topology.depth, live[b], strict=True) if alive)
        allowed = max(state.limits.depths[b], 0)
        assert deepest <= allowed, f"{name}: live node at depth {deepest} where the row has use for {allowed} only"
        for children in topology.children:
            siblings = [tokens[b][child] for child in children if live[b][child]]
            assert len(siblings) == len(set(siblings)), f"{name} gives one node the same child twice: {siblings}"
    _check_extras(draft, state, name)


def _check_extras(draft: Draft, state: DraftState, name: str) -> None:
    B, N = draft.tokens.shape
    if draft.resume is not None:
        shape, layer, L = tuple(draft.resume.hidden.shape[:2]), draft.resume.layer, state.network.num_layers
        assert shape == (B, N), f"{name} resumes {shape} hidden states, but drafts {(B, N)} nodes"
        assert 0 < layer <= L, f"{name} resumes at layer {layer}, but the network has layers 0..{L - 1}"
    if draft.probs is not None:
        assert draft.topology == Topology.chain(N), f"{name} gives probabilities for a tree: they are for chains only"
        want = (B, N - 1, state.network.vocab_size)
        assert tuple(draft.probs.shape) == want, (
            f"{name} gives probabilities of shape {tuple(draft.probs.shape)}, not {want}"
        )
