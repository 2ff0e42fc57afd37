"""Where the calls of plain decoding cannot be made row by row, transformers' own loop makes them."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from .call import Call
from .processors import known


def reason_for_plain(call: Call) -> str | None:
    """Why the rows of a call cannot go at their own speed; None where they can."""
    if call.rows == 1:
        return None
    unknown = sorted({type(part).__name__ for part in (*call.processors, *call.criteria) if not known(part)})
    if unknown:
        return (
            f"{', '.join(unknown)} may look at all rows at once or remember what it is shown; "
            "if its answer for a row depends on that row alone, give it an attribute stateless = True"
        )
    if not call.pads and any(not hasattr(criterion, "max_length") for criterion in call.criteria):
        return "without an eos_token_id, a row that has ended says more until all have; give an eos_token_id"
    return None


def decode_plainly(call: Call, reason: str) -> Any:
    """transformers' loop, with a warning; a ``seed`` leaves torch's own random state as it was."""
    warnings.warn(f"skipstone.decode decodes {call.rows} rows plainly: {reason}", stacklevel=2)
    with torch.random.fork_rng(enabled=call.seed is not None):
        if call.seed is not None:
            torch.manual_seed(call.seed)
        return call.model._sample(
            call.input_ids,
            logits_processor=call.processors,
            stopping_criteria=call.criteria,
            generation_config=call.config,
            **call.model_kwargs,
        )
