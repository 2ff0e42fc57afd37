"""The early-exit loss: every exit predicts the next token through the one final norm and head the model has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import TrainingError, UsageError
from ..hf.body import body_of
from ..hf.head import Head, head_of
from .sharded import unhooked
from .sweep import Sweep, sum_of_losses
from .targets import Targets, Teacher

IGNORED = -100  # the label of tokens that nobody is to predict: prompts, padding, the first token of a packed document


@dataclass(frozen=True)
class ExitLosses:
    total: Tensor  # [] what to call backward on
    by_layer: dict[int, float]  # mean over the tokens, by the layer the exit lies behind
    tokens: int  # that had a label; 0: the batch was empty, its loss is 0 and moves nothing
    empty_rows: int  # rows without a label


@dataclass(frozen=True)
class EarlyExitLoss:
    """Σ_l weight(l)·CE(head(norm(x_{l+1})), next token); at most ``chunk`` tokens of one exit have logits at a time."""

    head: Head
    chunk: int = 256

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise UsageError(f"a loss over chunks of {self.chunk} tokens: give 1 or more")

    @classmethod
    def of(cls, model: Any, chunk: int = 256) -> EarlyExitLoss:
        """With the final norm and head of a transformers causal LM."""
        return cls(unhooked(head_of(model, body_of(model)[0], model.config.get_text_config())), chunk)

    def __call__(
        self,
        hidden: Mapping[int, Tensor],
        labels: Tensor,
        weights: Mapping[int, float],
        teacher: Teacher | None = None,
        divisor: float | Tensor | None = None,
    ) -> ExitLosses:
        """From ``hidden`` [B, N, H] after each layer that ``weights`` names, before the final norm.

        ``labels`` [B, N] are the tokens themselves, as transformers has them: position n predicts label n+1, and -100
        is left out. ``divisor`` is what the sum over tokens is divided by, the number of labels in this batch unless
        given (with gradient accumulation: that of all micro-batches). An exit of weight 0 is not computed.
        Raises TrainingError where a loss is not finite.
        """
        weights = {layer: weight for layer, weight in weights.items() if weight}
        _check(hidden, labels, weights, teacher)
        following = F.pad(labels[:, 1:], (0, 1), value=IGNORED)
        labelled = following != IGNORED
        tokens = labelled.flatten().nonzero().flatten()
        wanted = following[labelled]
        _check_labels(wanted, self.head)
        sweep = Sweep(self.head, Targets(wanted, None if teacher is None else teacher.at(tokens)), self.chunk)
        streams = [hidden[layer].flatten(0, 1).index_select(0, tokens) for layer in weights]
        total, sums = sum_of_losses(streams, list(weights.values()), sweep)
        count = max(1, len(tokens))
        by_layer = dict(zip(weights, (sums / count).tolist(), strict=True))
        _check_finite(by_layer)
        empty = int((~labelled.any(1)).sum())
        by = count if divisor is None else torch.as_tensor(divisor).clamp(min=1)  # a step may be without any label
        return ExitLosses(total / by, by_layer, len(tokens), empty)


def _check(hidden: Mapping[int, Tensor], labels: Tensor, weights: Mapping[int, float], teacher: Teacher | None) -> None:
    if not weights:
        raise UsageError("an early-exit loss with no exit that counts: give the last layer a weight at least")
    for layer in weights:
        if layer not in hidden:
            raise UsageError(f"no hidden states after layer {layer}, which has a weight: there are {sorted(hidden)}")
        _check_shape(f"hidden states after layer {layer}", hidden[layer], labels)
    if teacher is not None:
        _check_shape("the teacher's hidden states", teacher.hidden, labels)


def _check_shape(what: str, hidden: Tensor, labels: Tensor) -> None:
    if hidden.shape[:-1] != labels.shape or labels.dim() != 2:
        raise UsageError(f"{what} are {list(hidden.shape)}, labels {list(labels.shape)}: give [B, N, H] and [B, N]")


def _check_labels(labels: Tensor, head: Head) -> None:
    """``labels`` [n]; one outside of the vocabulary would end a process on a GPU."""
    vocabulary = getattr(head.linear, "out_features", None)
    if vocabulary is None or not len(labels):
        return
    least, most = (int(label) for label in labels.aminmax())
    if least < 0 or most >= vocabulary:
        raise UsageError(
            f"label {least if least < 0 else most} in a vocabulary of {vocabulary} tokens: use the model's own "
            f"tokenizer, and {IGNORED} for what is not to be predicted"
        )


def _check_finite(by_layer: Mapping[int, float]) -> None:
    for layer, loss in by_layer.items():
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss of exit {layer + 1} is {loss}: begin anew with a lower learning rate and another output, "
                "or look for weights and inputs that are not finite"
            )
