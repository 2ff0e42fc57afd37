"""Positions of a text whose streams are known at several exits, and what the target chose there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..drafting import DraftState
from ..network import for_once
from ..plan import LayerPlan
from ..sampling import RowSampler, widened
from .exit_sights import ExitSights
from .replay import leave_finite, placed
from .window import Window

Score = Callable[[Tensor], Tensor]  # hidden states [B, N, H] to the logits [B, N, S] of the first S tokens

_CHOICES = 4  # of an exit that are looked at


@dataclass(frozen=True)
class ExitSample:
    """``streams[E]`` [n, H] entered layer E at ``positions`` [n]; ``said`` [n] are the target's tokens after them."""

    streams: Mapping[int, Tensor]
    positions: Sequence[int]
    said: Sequence[int]
    sampler: RowSampler

    def __len__(self) -> int:
        return len(self.said)

    def show(self, score: Score, exit_layer: int, sights: ExitSights) -> None:
        """What the exit would have chosen with a draft's head, [1, n, S] from [1, n, H]."""
        logits = score(self.streams[exit_layer][None])[0]
        first = self.sampler.said(logits, self.positions)
        probabilities = self._scaled(logits).softmax(-1)
        found = probabilities.topk(min(_CHOICES, logits.shape[-1]))
        leading = probabilities.gather(1, torch.tensor(first, device=logits.device)[:, None])[:, 0].tolist()
        rows = zip(first, leading, found.indices.tolist(), found.values.tolist(), self.said, strict=True)
        for token, chance, tokens, values, said in rows:
            others = [(t, v) for t, v in zip(tokens, values, strict=True) if t != token][: _CHOICES - 1]
            chosen = [token, *(t for t, _ in others)]
            sights.see([chance, *(v for _, v in others)], chosen.index(said) if said in chosen else None)

    def _scaled(self, logits: Tensor) -> Tensor:
        scores = widened(logits)
        return scores if self.sampler.greedy else scores / self.sampler.params.temperature


def surveyed(state: DraftState, exits: Sequence[int], size: int) -> ExitSample:
    """The newest ``size`` positions of the longest text, or as many as there are, run once more.

    What a prompt says is not the target's choice; what the target would have said in its place is.
    """
    window = _newest(state, size)
    network, full = for_once(state.network), LayerPlan.full(state.network.num_layers)
    x = torch.tensor([window.inputs], device=network.device)
    run = network.run(x, placed(state, window), state.cache, full, exits)
    leave_finite(state, window, run.hidden)
    sampler = state.samplers[window.place]
    said = sampler.said(network.logits(run.hidden)[0], window.positions)
    return ExitSample({layer: run.taps[layer][0] for layer in exits}, window.positions, said, sampler)


def _newest(state: DraftState, size: int) -> Window:
    """Without wanted tokens; prompts count."""
    place, history = max(enumerate(state.history), key=lambda row: len(row[1]))
    last = len(history) - 1  # the pending token has not run
    first = max(last - min(size, state.limits.nodes), 0)
    return Window(place, state.rows[place], first, tuple(history[first:last]), ())
