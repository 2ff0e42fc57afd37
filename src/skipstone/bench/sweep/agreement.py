"""What every exit would have drafted at every token of a text, from one pass over it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from ...network import Network
from ...plan import LayerPlan
from ...sampling import RowSampler
from ...tree import Topology
from .setting import Grid
from .texts import Text

Places = tuple[int, ...]  # of each output token among an exit's choices; 0: the first
ByDraft = Mapping[tuple[int, str], Places]  # by exit and head

_CHUNK = 512  # tokens of a run
_LOGITS = 64  # positions whose logits are held at once


def places(network: Network, text: Text, grid: Grid) -> ByDraft:
    """The place of each output token among the choices of each exit and head; the greatest width where it is not there.

    The pass is forced along the text, yet it tells what drafting would accept, at any depth: a draft is accepted up to
    its first wrong token, so all that it ever sees before an accepted token is the text itself, and of that its exit
    reads the keys and values of the layers below it, which are the model's own. The text's noise, penalties and cuts
    are those of drafting, too.
    """
    found: dict[tuple[int, str], list[int]] = {(layer, head): [] for layer in grid.exits for head in grid.heads}
    reader = _Reader(network, text, max(grid.widths))
    for first, streams in _streams(network, text, grid.exits):
        for layer in grid.exits:
            for start in range(0, streams[layer].shape[1], _LOGITS):
                logits = network.logits(streams[layer][:, start : start + _LOGITS])[0]
                for head in grid.heads:
                    found[layer, head] += reader.places(logits, first + start, head)
    return {key: tuple(each) for key, each in found.items()}


def _streams(network: Network, text: Text, exits: Sequence[int]) -> Iterator[tuple[int, Mapping[int, Tensor]]]:
    """The residual stream [1, n, H] at each exit, before the output tokens from a number on, chunk by chunk."""
    tokens = [*text.job.prompt, *text.output][:-1]
    before = len(text.job.prompt) - 1  # tokens after which nothing was chosen
    cache = network.new_cache(1, len(tokens))
    cache.reset(0, len(text.job.prompt))
    for start in range(0, len(tokens), _CHUNK):
        chunk = tokens[start : start + _CHUNK]
        x = torch.tensor([chunk], device=network.device)
        run = network.run(x, cache.place(Topology.chain(len(chunk)), [0]), cache, LayerPlan.until(max(exits)), exits)
        cache.commit([0], [range(len(chunk))])
        skipped = max(before - start, 0)
        if skipped < len(chunk):
            yield start + skipped - before, {layer: stream[:, skipped:] for layer, stream in run.taps.items()}


class _Reader:
    """Turns an exit's logits into choices, as a draft would at the same place of the text."""

    def __init__(self, network: Network, text: Text, width: int) -> None:
        self.text = text
        self.width = min(width, network.vocab_size)
        self.missing = width
        self.sampler = RowSampler(text.job.sampling, network.vocab_size, network.device)
        self.sampler.start(text.job.prompt)

    def places(self, logits: Tensor, first: int, head: str) -> list[int]:
        """Of the output tokens from ``first`` on, by ``logits`` [n, V]."""
        seen = logits if head == "full" else self._narrowed(logits, first, int(head))
        choices = (self._choices(row, first + number) for number, row in enumerate(seen))
        wanted = self.text.output[first : first + len(logits)]
        return [
            chosen.index(token) if token in chosen else self.missing
            for chosen, token in zip(choices, wanted, strict=True)
        ]

    def _choices(self, logits: Tensor, number: int) -> list[int]:
        """Best first, for the output token ``number``."""
        scores = self.sampler.draft_scores(logits, self.text.output[:number])
        chosen: list[int] = self.sampler.best(scores, number, self.width)[1].tolist()
        return chosen

    def _narrowed(self, logits: Tensor, first: int, size: int) -> Tensor:
        """Without the words that a head of ``size`` does not know: all others but those of the text so far."""
        known = torch.full_like(logits, -math.inf)
        known[:, :size] = logits[:, :size]
        for number in range(len(logits)):
            spoken = {*self.text.job.prompt, *self.text.output[: first + number]}
            extra = torch.tensor([token for token in spoken if token >= size], dtype=torch.long, device=logits.device)
            known[number, extra] = logits[number, extra]
        return known
