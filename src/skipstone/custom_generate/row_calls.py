"""One row as transformers' own loop would treat it: what it shows to processors and criteria, and when."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..sampling import RowSampler
from ..stopping import Stop


@dataclass(frozen=True, slots=True)
class Choice:
    """A token, the scores [1, V] it was chosen by and the logits [1, V] they were made from, as transformers has them.

    ``ends``: the criteria say that the text ends with it.
    """

    token: int
    scores: Tensor
    logits: Tensor
    ends: bool = False


@dataclass(eq=False)
class RowCalls:
    """Processors and stop rule of one row.

    The engine asks for the scores of a whole draft. This walks down the draft along the sampler's choices, and for each
    token makes the calls that plain decoding would make, in that order and once: processors, choice, criteria. A node
    off that walk, or after an end, is shown to nobody, so even what keeps state sees just what it should. Choices
    behind a node that is not live are not accepted yet; they wait for their turn.
    """

    ids: Tensor  # [1, S]: the prompt with its padding, then the output
    length: int  # of ids that are final
    processors: Any
    drafting: Any  # those of them that a draft may call, too
    criteria: Any
    shows_scores: bool = False  # to the criteria
    keeps: bool = False  # the choices, for the result
    chosen: list[Choice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._walk: list[Choice] = []
        self._waiting: list[Choice] = []
        self._warned = len(self.drafting) == len(self.processors)

    # as processors

    def scores(self, logits: Tensor, paths: Sequence[Sequence[int]], sampler: RowSampler) -> Tensor:
        """[N, V]; those of the nodes that the walk reaches are processed."""
        nodes = _nodes_by_path(paths)
        scores = logits.to(torch.float32, copy=True)
        while not self._ended and (here := nodes.pop(tuple(choice.token for choice in self._walk), None)):
            processed = self._step(logits[here[0]], sampler)
            scores = scores.to(torch.promote_types(scores.dtype, processed.dtype))  # a processor may widen
            scores[here] = processed.to(scores.dtype)
        return scores

    def draft_scores(self, logits: Tensor, path: Sequence[int]) -> Tensor:
        """[V], by known processors only: others might remember a text that is never written."""
        self._warn_once()
        scores = _float32(logits, self.ids.device)
        ids = torch.cat([self.ids[:, : self.length], self.ids.new_tensor([list(path)])], dim=1)
        with suppress(Exception):  # whatever they make of a text that plain decoding would not show them
            scores = self.drafting(ids, scores)
        return scores[0].to(logits.device)

    def advance(self, tokens: Sequence[int]) -> None:
        self.length += len(tokens)
        if self.keeps:
            self.chosen += self._walk[: len(tokens)]
        self._walk, self._waiting = [], [*self._walk[len(tokens) :], *self._waiting]

    # as stop rule

    def clip(self, output: Sequence[int], new: Sequence[int]) -> Stop | None:
        """Where the criteria ended the walk that ``new`` came from."""
        count = len(self._walk)
        return Stop(count, "stop_token") if self._ended and count <= len(new) else None

    # after the end

    def fill(self, logits: Tensor, pad: int) -> None:
        """Go on with padding, chosen by no one, as a row does that ended before others; ``logits`` [n, V]."""
        for raw in logits:
            self.chosen.append(Choice(pad, *self._processed(raw)))
            self.ids[0, self.length] = pad
            self.length += 1

    def _step(self, logits: Tensor, sampler: RowSampler) -> Tensor:
        """One token of plain decoding, from ``logits`` [V]; returns the scores [V] it was chosen by."""
        if self._waiting:
            self._walk.append(self._waiting.pop(0))
            return _comparable(self._walk[-1].scores[0].to(sampler.device), sampler)
        processed, raw = self._processed(logits)
        scores = _comparable(processed[0].to(sampler.device), sampler)
        best, token = sampler.best(scores, len(self._walk))
        if math.isfinite(best):  # else the acceptance rule says what is wrong
            self.ids[0, self._end] = token
            ends = self._asked(processed)
            self._walk.append(Choice(int(token), processed, raw, ends))
        return scores

    @property
    def _end(self) -> int:
        return self.length + len(self._walk)

    @property
    def _ended(self) -> bool:
        return bool(self._walk) and self._walk[-1].ends

    def _processed(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and logits [1, V] of the token after the walk; one tensor where a processor changes it in place."""
        raw = _float32(logits, self.ids.device)
        return self.processors(self.ids[:, : self._end], raw), raw

    def _asked(self, newest: Tensor) -> bool:
        """Whether the criteria end the text with the token after the walk, chosen by scores ``newest`` [1, V]."""
        before = (choice.scores for choice in (*self.chosen, *self._walk))
        shown = (*before, newest) if self.shows_scores else None
        return bool(torch.as_tensor(self.criteria(self.ids[:, : self._end + 1], shown)).all())

    def _warn_once(self) -> None:
        if not self._warned:
            names = sorted({type(part).__name__ for part in self.processors if part not in self.drafting})
            warnings.warn(
                f"skipstone.decode drafts without {', '.join(names)}, which may remember what it is shown, so drafts "
                "may be worse; if its answer depends on its arguments alone, give it an attribute stateless = True",
                stacklevel=2,
            )
        self._warned = True


def _nodes_by_path(paths: Sequence[Sequence[int]]) -> dict[tuple[int, ...], list[int]]:
    """Fillers of a draft may repeat a path."""
    nodes: dict[tuple[int, ...], list[int]] = {}
    for node, path in enumerate(paths):
        nodes.setdefault(tuple(path), []).append(node)
    return nodes


def _comparable(scores: Tensor, sampler: RowSampler) -> Tensor:
    """Without the infinity that some force a token with: the best of greedy decoding all the same."""
    return scores.clamp(max=torch.finfo(scores.dtype).max) if sampler.greedy else scores


def _float32(logits: Tensor, device: torch.device) -> Tensor:
    """[1, V], a copy: what transformers makes of logits [V]."""
    return logits.to(device, torch.float32, copy=True)[None]
