"""What ``generate`` was given and does not hand to a custom callable.

transformers takes ``streamer``, ``tokenizer`` and ``assistant_model`` out of the arguments before it looks at the
signature of the callable, so they can be read in one place only: the frames of the running call (docs/adr/0011).
"""

from __future__ import annotations

import inspect
from types import FrameType
from typing import Any

import transformers

_PARAMETERS = ("streamer", "assistant_model", "synced_gpus")  # generate's own
# still among the keywords of the decorators around it; that a cache is the caller's shows only there
_POPPED = ("tokenizer", "assistant_tokenizer", "cache", "past_key_values")


def kept_back() -> dict[str, Any]:
    """The arguments of the innermost running ``generate`` that it keeps to itself and that are not None."""
    frame = _frame_of_generate()
    if frame is None:
        return {}
    given = {name: frame.f_locals.get(name) for name in _PARAMETERS}
    while frame is not None and (keywords := _keywords(frame.f_back)):
        given |= {name: keywords[name] for name in _POPPED if name in keywords}
        frame = frame.f_back
    return {name: value for name, value in given.items() if value is not None}


def _frame_of_generate() -> FrameType | None:
    generate: Any = transformers.GenerationMixin.generate
    code = inspect.unwrap(generate).__code__
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame


def _keywords(frame: FrameType | None) -> dict[str, Any]:
    """The keywords a decorator of ``generate`` passes through; none where the frame is the caller's."""
    passed = frame.f_locals.get("kwargs") if frame is not None else None
    return passed if isinstance(passed, dict) and "custom_generate" in passed else {}
