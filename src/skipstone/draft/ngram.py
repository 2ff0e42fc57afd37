"""Prompt lookup: what followed the last few tokens the last time they occurred, in prompt or output, comes again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ..drafting import DraftState
from ..errors import UsageError
from ..network import Network
from ..request import Request
from ..telemetry import StepRecord
from ..tree import Draft, Topology

# of many earlier places only the newest are compared: text repeats itself locally, and lookups stay constant-time
_PLACES = 32


class NgramDrafter:
    """Prompt lookup over prompt and output: copies what followed the longest recent match. Needs no network."""

    @dataclass(frozen=True)
    class Options:
        max: int = field(default=10, metadata={"help": "longest match looked for, in tokens"})
        min: int = field(default=2, metadata={"help": "shortest match that drafts anything"})
        depth: int = field(default=8, metadata={"help": "tokens drafted at most"})

        def __post_init__(self) -> None:
            if not 1 <= self.min <= self.max:
                raise UsageError(f"ngram: min={self.min} and max={self.max} must satisfy 1 <= min <= max")
            if self.depth < 1:
                raise UsageError(f"ngram: depth={self.depth} drafts nothing: use 1 or more, or the drafter none")

    def __init__(self, options: Options, network: Network) -> None:
        self.options = options
        self._lookups: dict[int, _Lookup] = {}

    def admit(self, row: int, request: Request) -> None:
        self._lookups[row] = _Lookup(self.options.min, self.options.max)

    def release(self, row: int) -> None:
        self._lookups.pop(row, None)

    def propose(self, state: DraftState) -> Draft:
        """A chain as long as the longest row's guess; shorter guesses are filled up with tokens that are not live."""
        room = min(self.options.depth, state.limits.nodes - 1)
        guesses = [
            self._lookups[row].guess(history)[: max(min(room, depth), 0)]
            for row, history, depth in zip(state.rows, state.history, state.limits.depths, strict=True)
        ]
        longest = max(map(len, guesses))
        device = state.network.device
        tokens = [[p, *g, *[p] * (longest - len(g))] for p, g in zip(state.pending, guesses, strict=True)]
        live = [[True] * (1 + len(g)) + [False] * (longest - len(g)) for g in guesses]
        topology = Topology.chain(1 + longest)
        return Draft(topology, torch.tensor(tokens, device=device), torch.tensor(live, device=device))

    def observe(self, record: StepRecord) -> None:
        pass


class _Lookup:
    """An index of one growing text: where each run of ``shortest`` tokens ended."""

    def __init__(self, shortest: int, longest: int) -> None:
        self.shortest, self.longest = shortest, longest
        self._ends: dict[tuple[int, ...], list[int]] = {}
        self._indexed = 0

    def guess(self, text: Sequence[int]) -> list[int]:
        """What followed the longest earlier match of the end of ``text`` (of equals the newest), to the end of it."""
        self._index(text)
        ends = self._ends.get(tuple(text[-self.shortest :]), [])[-_PLACES:]
        best = max(reversed(ends), key=lambda end: self._match(text, end), default=None)
        return [] if best is None else list(text[best:])

    def _index(self, text: Sequence[int]) -> None:
        """Take in all runs that end before the last token (the last one's is what gets looked up)."""
        for end in range(max(self._indexed, self.shortest), len(text)):
            self._ends.setdefault(tuple(text[end - self.shortest : end]), []).append(end)
        self._indexed = max(self._indexed, len(text))

    def _match(self, text: Sequence[int], end: int) -> int:
        """Tokens before ``end`` that equal those before the end of the text, at most ``longest``."""
        length = self.shortest
        while length < min(self.longest, end) and text[end - length - 1] == text[-length - 1]:
            length += 1
        return length
