"""What ``generate`` gives back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.generation import utils

from ..errors import UsageError
from .call import Call
from .row_calls import RowCalls


def result_of(call: Call, rows: Sequence[RowCalls]) -> Any:
    """Sequences [B, longest], or an output object that holds them, without a cache."""
    sequences = _sequences(call, rows)
    if not call.config.return_dict_in_generate:
        return sequences
    steps = list(zip(*(row.chosen for row in rows), strict=True))
    scores = tuple(torch.cat([choice.scores for choice in step]) for step in steps)
    logits = tuple(torch.cat([choice.logits for choice in step]) for step in steps)
    output: Any = utils.GenerateDecoderOnlyOutput
    return output(
        sequences=sequences,
        scores=scores if call.keeps_scores else None,
        logits=logits if call.keeps_logits else None,
    )


def _sequences(call: Call, rows: Sequence[RowCalls]) -> Tensor:
    longest = max(row.length for row in rows)
    sequences = call.input_ids.new_full((len(rows), longest), filler(call, rows))
    for b, row in enumerate(rows):
        sequences[b, : row.length] = row.ids[0, : row.length]
    return sequences


def filler(call: Call, rows: Sequence[RowCalls]) -> int:
    """The token behind a row that ended before others. Raises UsageError where one is needed and there is none."""
    if call.pad is not None:
        return call.pad
    if len({row.length for row in rows}) > 1:
        raise UsageError("the rows end at different places and there is no pad_token_id: give one")
    return 0
