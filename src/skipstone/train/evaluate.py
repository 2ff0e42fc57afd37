"""Exits on held-out rows: their loss, and how often they would choose the last layer's token."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    """Of some exits in order, the last layer L at the end, over ``tokens`` tokens; ``choices`` [tokens] are L's."""

    exits: tuple[ExitFigures, ...]
    tokens: int
    choices: tuple[int, ...]

    @property
    def last_loss(self) -> float:
        return self.exits[-1].loss

    def at(self, exit_layer: int) -> ExitFigures:
        """Raises UsageError for an exit that was not evaluated."""
        for each in self.exits:
            if each.exit == exit_layer:
                return each
        raise UsageError(f"exit {exit_layer} was not evaluated: there are {[each.exit for each in self.exits]}")

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
        """Of ``to_json`` with its choices. Raises ValueError, KeyError or TypeError for what is none."""
        found = cls(tuple(ExitFigures(**each) for each in told["exits"]), told["tokens"], tuple(told["choices"]))
        if not found.exits or len(found.choices) != found.tokens:
            raise ValueError(f"{len(found.exits)} exits and {len(found.choices)} choices of {found.tokens} tokens")
        return found


@torch.no_grad()
def evaluate(model: Any, rows: Rows, batch: int = 1, only: Collection[int] | None = None) -> Figures:
    """Figures of ``model`` over ``rows``, out of training mode; it is in the mode it was in afterwards.

    Each exit takes a product with the whole head: ``only`` these (and the last layer), or all 1..L. Raises PlanError
    for an exit that the model does not have.
    """
    was = model.training
    model.eval()
    try:
        return _evaluate(model, plain(model), rows, batch, only)
    finally:
        model.train(was)


def _evaluate(model: Any, network: Any, rows: Rows, batch: int, only: Collection[int] | None) -> Figures:
    """``network`` is ``model`` without adapters."""
    last = network.config.get_text_config().num_hidden_layers
    numbers = sorted({*(range(1, last + 1) if only is None else only), last})
    sums, choices = torch.zeros(len(numbers), 2, dtype=torch.float64), []
    head = EarlyExitLoss.of(network).head
    for start in range(0, len(rows), batch):
        part = {name: x.to(model.device) for name, x in stacked(rows.rows[start : start + batch]).items()}
        with exits(network, [number - 1 for number in numbers]) as hidden:
            run(model, network, part)
        wanted = F.pad(part["labels"][:, 1:], (0, 1), value=IGNORED)
        labelled = wanted != IGNORED
        streams = torch.stack([hidden[number - 1][labelled] for number in numbers])
        with in_one_piece(model, head, release=True):
            found, chosen = _judged(head, streams, wanted[labelled])
        sums += found
        choices += chosen
    return _figures(numbers, sums, choices)


def _judged(head: Head, streams: Tensor, labels: Tensor) -> tuple[Tensor, list[int]]:
    """Of streams [E, n, H] and labels [n]: sums [E, 2] of losses and agreements, and what the last stream chooses."""
    sums, choices = torch.zeros(len(streams), 2, dtype=torch.float64), []
    for start in range(0, len(labels), _CHUNK):
        part = slice(start, start + _CHUNK)
        chosen, loss = _spoken(head, streams[-1, part], labels[part])
        choices += chosen.tolist()
        sums[-1] += torch.stack([loss, loss.new_tensor(len(chosen))]).cpu()
        for index, stream in enumerate(streams[:-1]):
            mine, loss = _spoken(head, stream[part], labels[part])
            sums[index] += torch.stack([loss, (mine == chosen).sum().double()]).cpu()
    return sums, choices


def _spoken(head: Head, stream: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """What a stream [n, H] chooses, [n], and its summed loss [] in float64; its logits are freed."""
    logits = head(stream).float()
    return logits.argmax(-1), F.cross_entropy(logits, labels, reduction="sum").double()


def _figures(numbers: Sequence[int], sums: Tensor, choices: list[int]) -> Figures:
    """``sums`` [E, 2] by the exits' ``numbers``."""
    tokens = len(choices)
    means = (sums / max(1, tokens)).tolist()
    found = tuple(ExitFigures(number, *pair) for number, pair in zip(numbers, means, strict=True))
    return Figures(found, tokens, tuple(choices))
