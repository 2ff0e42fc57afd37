"""Positions of a text whose streams are known at several exits, and what the target chose there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..drafting import DraftState
from ..network import for_once
from ..plan import LayerPlan
from ..sampling import SamplingParams, said_by, widened
from .exit_sights import ExitSights
from .replay import leave_finite, placed
from .window import Window

Score = Callable[[Tensor], Tensor]  # hidden states [B, N, H] to the logits [B, N, S] of the first S tokens

_CHOICES = 4  # of an exit that are looked at


@dataclass(frozen=True)
class ExitSample:
    """``streams[E]`` [n, H] entered layer E at ``positions`` [n]; ``said`` [n] are the target's tokens after them.

    It outlives the text: nothing of the text's own is held but these.
    """

    streams: Mapping[int, Tensor]
    positions: Sequence[int]
    said: Sequence[int]
    params: SamplingParams

    def __len__(self) -> int:
        return len(self.said)

    def fits(self, device: torch.device, dtype: torch.dtype) -> bool:
        """Whether a network has not been moved since."""
        return all(stream.device == device and stream.dtype == dtype for stream in self.streams.values())

    def judge(self, logits: Tensor, sights: ExitSights) -> None:
        """By what an exit makes of its streams, logits [n, S]. Numbers that are not finite make no choice likely."""
        first = said_by(self.params, logits, self.positions)
        scores = widened(logits) / (self.params.temperature or 1.0)
        probabilities = scores.softmax(-1).nan_to_num(0.0)
        best = probabilities.topk(min(_CHOICES, logits.shape[-1]))
        leading = probabilities.gather(1, torch.tensor(first, device=logits.device)[:, None])[:, 0].tolist()
        rows = zip(first, leading, best.indices.tolist(), best.values.tolist(), self.said, strict=True)
        for token, chance, tokens, values, said in rows:
            others = [(t, v) for t, v in zip(tokens, values, strict=True) if t != token][: _CHOICES - 1]
            chosen = [token, *(t for t, _ in others)]
            sights.see([chance, *(v for _, v in others)], chosen.index(said) if said in chosen else None)


def show(samples: Sequence[ExitSample], exit_layer: int, score: Score, sights: ExitSights) -> None:
    """What the exit would have chosen at all of them; one product with a draft's head."""
    some = [sample for sample in samples if exit_layer in sample.streams]
    if not some:
        return
    logits = score(torch.cat([sample.streams[exit_layer] for sample in some])[None])[0]
    for sample, part in zip(some, torch.split(logits, [len(sample) for sample in some]), strict=True):
        sample.judge(part, sights)


def surveyed(state: DraftState, exits: Sequence[int], size: int) -> ExitSample:
    """The newest ``size`` positions of the longest text, or as many as there are, run once more.

    What a prompt says is not the target's choice; what the target would have said in its place is.
    """
    window = _newest(state, size)
    network, full = for_once(state.network), LayerPlan.full(state.network.num_layers)
    x = torch.tensor([window.inputs], device=network.device)
    run = network.run(x, placed(state, window), state.cache, full, exits)
    leave_finite(state, window, run.hidden)
    params = state.samplers[window.place].params
    said = said_by(params, network.logits(run.hidden)[0], window.positions)
    return ExitSample({layer: run.taps[layer][0] for layer in exits}, window.positions, said, params)


def _newest(state: DraftState, size: int) -> Window:
    """Without wanted tokens; prompts count."""
    place, history = max(enumerate(state.history), key=lambda row: len(row[1]))
    last = len(history) - 1  # the pending token has not run
    first = max(last - min(size, state.limits.nodes), 0)
    return Window(place, state.rows[place], first, tuple(history[first:last]), ())
