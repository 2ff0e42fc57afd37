"""From padded rows to prompts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import RequestError, UsageError


def prompts_of(input_ids: Tensor, attention_mask: Any = None, position_ids: Any = None) -> list[list[int]]:
    """The tokens of each row without its padding on the left. Raises UsageError for any other mask or positions."""
    mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    _check_mask(input_ids, mask.to(torch.long))
    _check_positions(mask, position_ids)
    return [row[kept].tolist() for row, kept in zip(input_ids, mask.bool(), strict=True)]


def _check_mask(input_ids: Tensor, mask: Tensor) -> None:
    if mask.shape != input_ids.shape:
        raise UsageError(f"attention_mask is {list(mask.shape)}, input_ids are {list(input_ids.shape)}: one for each")
    if not ((mask == 0) | (mask == 1)).all():
        raise UsageError("attention_mask must be 0 for padding and 1 for text")
    empty = [row for row, kept in enumerate(mask.any(dim=1).tolist()) if not kept]
    if empty:
        raise RequestError(f"the prompt of row {empty[0]} is empty: give at least one token that is not masked")
    if (mask[:, 1:] < mask[:, :-1]).any():
        raise UsageError(
            "attention_mask has text before padding or a hole: pad on the left (tokenizer.padding_side = 'left'), and "
            "where the mask was guessed from pad_token_id, give one"
        )


def _check_positions(mask: Tensor, position_ids: Any) -> None:
    if position_ids is None:
        return
    want = mask.long().cumsum(-1) - 1
    if position_ids.dim() not in (2, 3) or position_ids.shape[-1] != want.shape[-1]:
        raise UsageError(f"position_ids of shape {list(position_ids.shape)} are not supported: leave them out")
    # of three dimensions: a plane each for text, time, height and width, all the same where there is text alone
    if not ((position_ids == want) | (mask == 0)).all():
        raise UsageError("position_ids other than 0, 1, 2, … from the first token on are not supported: leave them out")
