"""Ctrl-C, pressed twice in haste."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_HASTE_S = 2.0


@contextmanager
def one_interrupt() -> Iterator[None]:
    """What comes within two seconds of an interrupt is the same one: what is saved because of it must not be lost.

    Later ones count, so that waiting for something can be ended too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    last = [-_HASTE_S]

    def interrupt(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - last[0] >= _HASTE_S:
            last[0] = now
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
