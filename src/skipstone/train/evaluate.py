"""Every exit on held-out rows: its loss, and how often it would choose the last layer's token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import UsageError
from ..hf.head import Head
from .batch import plain, run, stacked
from .data import Rows
from .early_exit_loss import IGNORED, EarlyExitLoss
from .forward import exits
from .sharded import in_one_piece

_CHUNK = 1024  # tokens of one exit that have logits at a time


@dataclass(frozen=True)
class ExitFigures:
    """``loss`` is the mean cross-entropy, ``agreement`` the share of tokens where it chooses as the last layer does."""

    exit: int  # E: the output of layer E-1
    loss: float
    agreement: float


@dataclass(frozen=True)
class Figures:
    """Of all exits 1..L in order, over ``tokens`` tokens. ``choices`` [tokens] are the last layer's."""

    exits: tuple[ExitFigures, ...]
    tokens: int
    choices: tuple[int, ...]

    @property
    def last_loss(self) -> float:
        return self.exits[-1].loss

    def same_choices(self, other: Figures) -> float:
        """The share of tokens where both last layers choose the same, of 1."""
        if len(self.choices) != len(other.choices):
            raise UsageError(f"figures over {self.tokens} and {other.tokens} tokens: evaluate both on the same rows")
        return sum(a == b for a, b in zip(self.choices, other.choices, strict=True)) / max(1, self.tokens)

    def to_json(self, choices: bool = False) -> dict[str, Any]:
        exits = [{"exit": e.exit, "loss": e.loss, "agreement": e.agreement} for e in self.exits]
        told = {"tokens": self.tokens, "last_loss": self.last_loss, "exits": exits}
        return {**told, "choices": list(self.choices)} if choices else told

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Figures:
        """Of ``to_json`` with its choices."""
        return cls(tuple(ExitFigures(**each) for each in told["exits"]), told["tokens"], tuple(told["choices"]))


@torch.no_grad()
def evaluate(model: Any, rows: Rows, batch: int = 1) -> Figures:
    """Figures of ``model`` over ``rows``, out of training mode; it is in the mode it was in afterwards."""
    was = model.training
    model.eval()
    try:
        return _evaluate(model, plain(model), rows, batch)
    finally:
        model.train(was)


def _evaluate(model: Any, network: Any, rows: Rows, batch: int) -> Figures:
    """``network`` is ``model`` without adapters."""
    layers = network.config.get_text_config().num_hidden_layers
    sums, choices = torch.zeros(layers, 2, dtype=torch.float64), []
    head = EarlyExitLoss.of(network).head
    for start in range(0, len(rows), batch):
        part = {name: x.to(model.device) for name, x in stacked(rows.rows[start : start + batch]).items()}
        with exits(network, range(layers)) as hidden:
            run(model, network, part)
        wanted = F.pad(part["labels"][:, 1:], (0, 1), value=IGNORED)
        labelled = wanted != IGNORED
        streams = torch.stack([hidden[layer][labelled] for layer in range(layers)])
        with in_one_piece(model, head, release=True):
            found, chosen = _judged(head, streams, wanted[labelled])
        sums += found
        choices += chosen
    return _figures(sums, choices)


def _judged(head: Head, streams: Tensor, labels: Tensor) -> tuple[Tensor, list[int]]:
    """Of streams [L, n, H] and labels [n]: sums [L, 2] of losses and agreements, and what the last layer chooses."""
    sums, choices = torch.zeros(len(streams), 2, dtype=torch.float64), []
    for start in range(0, len(labels), _CHUNK):
        part = slice(start, start + _CHUNK)
        last = head(streams[-1, part]).argmax(-1)
        choices += last.tolist()
        for layer, stream in enumerate(streams):
            logits = head(stream[part]).float()
            loss = F.cross_entropy(logits, labels[part], reduction="sum")
            sums[layer] += torch.stack([loss.double(), (logits.argmax(-1) == last).sum().double()]).cpu()
    return sums, choices


def _figures(sums: Tensor, choices: list[int]) -> Figures:
    tokens = len(choices)
    means = (sums / max(1, tokens)).tolist()
    return Figures(tuple(ExitFigures(number, *pair) for number, pair in enumerate(means, 1)), tokens, tuple(choices))
