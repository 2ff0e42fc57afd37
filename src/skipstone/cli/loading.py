"""Loading a model so that it is told at once and Ctrl-C is never lost on the way."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..text.language_model import LanguageModel


def load(model: str, **where: Any) -> LanguageModel:
    """``skipstone.load``, interruptible: what it raises after a Ctrl-C is a KeyboardInterrupt."""
    if sys.stderr.isatty():
        print(f"loading {model} ...", file=sys.stderr, flush=True)
    with interruptible():
        import skipstone

        return skipstone.load(model, **where)


@contextmanager
def interruptible() -> Iterator[None]:
    """Imports deep in other libraries may swallow an interrupt, or turn it into an error that blames the model.

    So it is remembered and raised at the end; a second one ends the process at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        if pressed:
            os._exit(128 + number)
        pressed.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    except Exception as error:
        if pressed:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
