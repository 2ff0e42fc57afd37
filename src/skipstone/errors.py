"""Every error Skipstone raises on purpose, so that callers can catch one name.

    SkipstoneError
    ├── UsageError             an argument, option or combination that cannot work
    │   ├── PlanError          a layer plan or exit outside the model
    │   └── RequestError       a prompt, budget or sampling number that cannot be served
    ├── ModelError             a model that cannot be found, read or run
    │   ├── ModelNotFound
    │   ├── UnsupportedModel
    │   ├── CheckpointError    damaged, truncated or refused (pickle) weight files
    │   └── ParityError        our forward pass does not match the model's own
    ├── StoreError             disk, cache folder or download trouble
    ├── CapacityError          no free row, or a cache too small for what was asked
    ├── NumericsError          logits that are not finite
    ├── TrainingError          a loss that is not finite, a forward pass that cannot be trained on
    └── ConstraintError        a constraint that allows no token at all

Each message is one line: what was given, what is wrong, what to do.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class SkipstoneError(Exception):
    """Base of all errors raised on purpose."""


class UsageError(SkipstoneError):
    """An argument, option or combination of them that cannot work."""


class PlanError(UsageError):
    """A layer plan or exit layer that does not fit the model."""


class RequestError(UsageError):
    """A prompt, budget or sampling number that cannot be served."""


class ModelError(SkipstoneError):
    """A model that cannot be found, read or run."""


class ModelNotFound(ModelError):
    """No model at the given name or path."""


class UnsupportedModel(ModelError):
    """A model whose architecture cannot be decoded with layer plans."""


class CheckpointError(ModelError):
    """Weight files that are damaged, truncated or refused."""


class ParityError(ModelError):
    """Our forward pass does not match the model's own."""


class StoreError(SkipstoneError):
    """Disk, cache folder or download trouble."""


class CapacityError(SkipstoneError):
    """No free cache row, or a cache too small for what was asked."""


class NumericsError(SkipstoneError):
    """Logits that are not finite."""


class TrainingError(SkipstoneError):
    """A loss that is not finite, or a forward pass that cannot be trained on."""


class ConstraintError(SkipstoneError):
    """A constraint that allows no token at all."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """The end of an error message: the nearest known name, else all of them.

    >>> did_you_mean("ngrm", ["none", "ngram"])
    'did you mean "ngram"?'
    """
    names = sorted(known)
    close = difflib.get_close_matches(given, names, n=1)
    if close:
        return f'did you mean "{close[0]}"?'
    return f"known: {', '.join(names)}"


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, in Python's words or in torch's, which has several for it."""
    words = r"allocate memory|not enough memory|out of memory|size calculation overflowed"
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and bool(re.search(words, str(error))))
