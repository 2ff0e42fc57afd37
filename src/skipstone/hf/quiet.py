"""transformers without its progress bars, reports and warnings: what matters of them becomes an error of ours."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing of transformers reaches the terminal inside; its own settings are restored after."""
    # one bar of the GGUF reader heeds no setting, hence the redirection
    with hushed(), redirect_stderr(io.StringIO()):
        yield


@contextmanager
def hushed() -> Iterator[None]:
    """As ``quiet``, but the terminal stays open to others; for what runs long."""
    import transformers

    log: Any = transformers.utils.logging
    before, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.set_verbosity(before)
        if bars:
            log.enable_progress_bar()
