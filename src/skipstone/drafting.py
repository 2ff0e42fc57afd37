"""The contract between engine and drafters: what a drafter may see, and what it must answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from .accept import AcceptanceRule, Pick
from .cache import KVCache
from .cost import CostModel
from .errors import UsageError
from .network import Network
from .request import Request
from .sampling import RowSampler
from .telemetry import StepRecord
from .tree import Draft, root_only


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a draft may hold. More depth than a row's is marked not live; more nodes do not fit at all."""

    nodes: int  # nodes of the draft, root included, for the scratch that every row has left
    depths: tuple[int, ...]  # B: drafted tokens that could still be used by each row's budget and context

    @property
    def depth(self) -> int:
        """The deepest useful draft of any row."""
        return min(max(self.depths), self.nodes - 1)


@dataclass(frozen=True)
class DraftState:
    """All a drafter may see: B rows about to be verified, the cache that holds them, and how tokens are picked."""

    rows: tuple[int, ...]
    history: tuple[Sequence[int], ...]  # B: prompt and output, the pending token last
    cache: KVCache
    network: Network
    limits: Limits
    samplers: tuple[RowSampler, ...]
    rule: AcceptanceRule
    costs: CostModel | None = None  # what steps cost here, where that was measured

    @property
    def pending(self) -> list[int]:
        """B: the newest token of each row, chosen but not yet run."""
        return [tokens[-1] for tokens in self.history]

    def pick(self, logits: Tensor, paths: Sequence[Sequence[int]], width: int = 1) -> list[Pick]:
        """Draft tokens for B rows from draft ``logits`` [B, V], each reached by the drafted tokens ``paths[b]``.

        Uses the processors and the noise that verification will use, so a perfect draft is accepted at any temperature.
        """
        picks = []
        for sampler, row_logits, path in zip(self.samplers, logits, paths, strict=True):
            scores = sampler.draft_scores(row_logits, path)
            picks.append(self.rule.pick(scores, sampler, len(path), width))
        return picks

    def nothing(self) -> Draft:
        """The draft of the pending tokens alone."""
        return root_only(torch.tensor(self.pending, device=self.network.device))


def check_draft(draft: Draft, pending: Sequence[int], network: Network) -> None:
    """Raise UsageError for a draft that would make verification say something else than the target would.

    ``pending`` [B] are the tokens node 0 must hold.
    """
    tokens: list[list[int]] = draft.tokens.tolist()
    if [row[0] for row in tokens] != list(pending):
        raise UsageError(f"the draft begins with {[row[0] for row in tokens]}, not the pending tokens {list(pending)}")
    wrong = next((token for row in tokens for token in row if not 0 <= token < network.vocab_size), None)
    if wrong is not None or draft.tokens.dtype != torch.int64:
        raise UsageError(
            f"the draft holds {wrong} ({draft.tokens.dtype}): tokens are int64, below {network.vocab_size}"
        )
    if draft.resume is not None and not 0 < draft.resume.layer <= network.num_layers:
        raise UsageError(f"the draft resumes at layer {draft.resume.layer}: use 1 to {network.num_layers}")
    if draft.resume is not None and draft.resume.hidden.shape[:2] != draft.tokens.shape:
        shape, nodes = tuple(draft.resume.hidden.shape), tuple(draft.tokens.shape)
        raise UsageError(f"the draft resumes from hidden states of shape {shape} for tokens of shape {nodes}")


class Drafter(Protocol):
    """Proposes what the target may say next. Whatever it proposes, the output stays that of plain decoding.

    May run the network over scratch slots; must not commit, truncate or otherwise touch committed slots. An object
    serves one engine at a time: it is told of rows by number.
    """

    def admit(self, row: int, request: Request) -> None:
        """A text begins in ``row``."""
        ...

    def release(self, row: int) -> None:
        """The text in ``row`` ended or was dropped; ``row`` may be admitted again."""
        ...

    def propose(self, state: DraftState) -> Draft:
        """A draft for the rows of ``state``, within ``state.limits``; node 0 of each row is its pending token."""
        ...

    def observe(self, record: StepRecord) -> None:
        """How one row's draft fared."""
        ...
