"""The LM head of a draft: whole, or cut down to frequent tokens and those of the text.

A draft may guess from part of the vocabulary, since verification uses all of it: what a guess can lose is acceptance.
Token ids stand for frequency: merges are learnt, and pieces sorted, the most frequent first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..cost import CostModel, Step, expected_tokens
from ..drafting import DraftState
from ..errors import UsageError
from ..network import Network, for_once
from ..plan import LayerPlan
from ..search.preset import MOST_WORDS, is_count
from ..telemetry import StepRecord

HELP = "words the draft's head knows: auto, full, or how many"
_FEWEST = 1024  # below, nothing is saved
_PART = 6  # auto: this part of the vocabulary
_THINK_AGAIN = 64  # proposals between two looks at what pays
_BELIEVED = 32.0  # tokens that the first guesses at coverage and acceptance count for
_COVERAGE, _ACCEPTANCE = 0.9, 0.7


def check_head(name: str, head: str) -> None:
    """Raises UsageError for what no head can be."""
    if head not in ("auto", "full") and not is_count(head):
        raise UsageError(
            f"{name}: head={head[:40]!r} is not known: use auto, full or how many tokens, 1 to {MOST_WORDS}"
        )


@dataclass
class _Text:
    """What of a row's text the frequent tokens leave out."""

    read: int = 0  # tokens of its history looked at
    extra: dict[int, None] = field(default_factory=dict)  # a set in order
    index: Tensor | None = None  # the extra tokens
    head: Callable[[Tensor], Tensor] | None = None


class DraftHead:
    """Logits to draft with, for one drafter. ``asked`` is auto, full or a number.

    auto is the whole head until the costs of steps say that less pays, by how many of the texts' own tokens a part
    would have known.
    """

    def __init__(self, asked: str, network: Network) -> None:
        self.network = network
        self.auto = asked == "auto"
        size = max(network.vocab_size // _PART, _FEWEST) if self.auto else network.vocab_size
        self.size = min(int(asked) if asked.isdecimal() else size, network.vocab_size)
        self.narrow = not self.auto and self.size < network.vocab_size
        self._frequent: Callable[[Tensor], Tensor] | None = None
        self._texts: dict[int, _Text] = {}
        self._known = Share(_COVERAGE)  # of the texts' new tokens, those the part would have known
        self._accepted = Share(_ACCEPTANCE)
        self._proposals = 0
        self._held = False

    @property
    def step_head(self) -> bool | int:
        """What it costs, as ``Step.head`` has it."""
        return self.size if self.narrow else True

    @property
    def uses_costs(self) -> bool:
        return self.auto and self.size < self.network.vocab_size

    @property
    def coverage(self) -> float:
        """Of the texts' new tokens, those that a narrow head would have known."""
        return self._known.value

    def hold(self, narrow: bool) -> None:
        """Be narrow, or not, as somebody else found that it pays; of an auto head only."""
        self.narrow, self._held = narrow, True

    def score(self, hidden: Tensor) -> Tensor:
        """[B, N, S] of the first S tokens, all where the head is not narrow, from hidden states [B, N, H]."""
        return self._part(hidden) if self.narrow else for_once(self.network).logits(hidden)

    def release(self, row: int) -> None:
        self._texts.pop(row, None)

    def observe(self, record: StepRecord) -> None:
        self._accepted.add(record.right, record.judged)

    def look(self, state: DraftState, plan: LayerPlan, depth: int) -> None:
        """Take in what the texts said since last time, and think again about what pays now and then."""
        if self.size == self.network.vocab_size or (self.auto and state.costs is None and not self.narrow):
            return
        for row, history in zip(state.rows, state.history, strict=True):
            self._read(self._texts.setdefault(row, _Text()), history)
        if self.auto and not self._held and state.costs is not None and self._proposals % _THINK_AGAIN == 0:
            self.narrow = self._pays(state, state.costs, plan, depth)
        self._proposals += 1

    def __call__(self, state: DraftState, hidden: Tensor) -> Tensor:
        """[B, V] from the newest hidden states [B, 1, H]; tokens the head does not know are ruled out."""
        if not self.narrow:
            return self.network.logits(hidden)[:, -1]
        known = self._part(hidden)[:, -1]
        logits = known.new_full((len(known), self.network.vocab_size), -math.inf)
        logits[:, : self.size] = known
        for b, row in enumerate(state.rows):
            text = self._texts[row]
            if text.extra:
                index, head = self._of(text)
                logits[b, index] = head(hidden[b : b + 1])[0, -1]
        return logits

    def _part(self, hidden: Tensor) -> Tensor:
        if self._frequent is None:
            self._frequent = self.network.narrow_head(torch.arange(self.size, device=self.network.device))
        return self._frequent(hidden)

    def _of(self, text: _Text) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        if text.head is None or text.index is None:
            text.index = torch.tensor(list(text.extra), device=self.network.device)
            text.head = self.network.narrow_head(text.index)
        return text.index, text.head

    def _read(self, text: _Text, history: Sequence[int]) -> None:
        """New tokens of a text: were they known, and are they from now on. A prompt's tokens say nothing of drafts."""
        for token in history[text.read :]:
            known = token < self.size or token in text.extra
            if text.read:
                self._known.add(int(known), 1)
            if not known:
                text.extra[token] = None
                text.head = None
        text.read = len(history)

    def _pays(self, state: DraftState, costs: CostModel, plan: LayerPlan, depth: int) -> bool:
        """Whether tokens per millisecond rise: M / (K · draft + verification) either way."""
        rows, context = len(state.rows), max(map(len, state.history))
        verify = costs.ms(Step(LayerPlan.full(self.network.num_layers), depth + 1, rows, context))
        whole, part = (costs.ms(Step(plan, 1, rows, context, head)) for head in (True, self.size))
        coverage = self._known.value
        acceptance = self._accepted.value / (coverage if self.narrow else 1.0)
        acceptance = min(acceptance, 1.0)
        return expected_tokens(acceptance * coverage, depth) * (depth * whole + verify) > expected_tokens(
            acceptance, depth
        ) * (depth * part + verify)


@dataclass
class Share:
    """A running share, believed to be ``value`` before anything was seen; older sights count less."""

    value: float
    weight: float = _BELIEVED

    def add(self, hits: int, of: int) -> None:
        if of:
            total = self.weight + of
            self.value = (self.value * self.weight + hits) / total
            self.weight = min(total, 8 * _BELIEVED)
