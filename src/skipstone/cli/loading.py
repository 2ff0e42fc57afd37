"""Loading a model so that it is told at once and Ctrl-C is never lost on the way."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from ..text.language_model import LanguageModel

P = ParamSpec("P")

DISTURBED = "other work disturbed the timing; OMP_WAIT_POLICY=passive helps where programs share cores"


def load(model: str, **where: Any) -> LanguageModel:
    """``skipstone.load``, interruptible: what it raises after a Ctrl-C is a KeyboardInterrupt."""
    if sys.stderr.isatty():
        print(f"loading {model} ...", file=sys.stderr, flush=True)
    with interruptible():
        import skipstone

        return skipstone.load(model, **where)


def after_torch(command: Callable[P, None]) -> Callable[P, None]:
    """A command, whose own imports need torch: that comes first, and in one piece. Help has no need of it."""

    @wraps(command)
    def run(*args: P.args, **named: P.kwargs) -> None:
        with _remembered(at_once=False):  # torch aborts the process where an interrupt ends its import
            import torch  # noqa: F401
        command(*args, **named)

    return run


@contextmanager
def interruptible() -> Iterator[None]:
    """Imports deep in other libraries may swallow an interrupt, or turn it into an error that blames the model.

    So it is remembered and raised at the end; a second one ends the process at once.
    """
    with _remembered(at_once=True) as pressed:
        try:
            yield
        except Exception as error:
            if pressed:
                raise KeyboardInterrupt from error
            raise


@contextmanager
def _remembered(at_once: bool) -> Iterator[list[int]]:
    """Interrupts so far; they are raised at the end, and ``at_once`` as well. Only the main thread gets any.

    Who was started to ignore them, as jobs in the background of a script are, goes on to.
    """
    pressed: list[int] = []
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored or threading.current_thread() is not threading.main_thread():
        yield pressed
        return

    def remember(number: int, frame: FrameType | None) -> None:
        if pressed:
            os._exit(128 + number)
        pressed.append(number)
        if at_once:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
