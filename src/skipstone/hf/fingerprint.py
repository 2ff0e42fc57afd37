"""What model a folder holds, whatever it is called and wherever it lies: the same on every machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from ..errors import CheckpointError
from .adapters import Adapter
from .checkpoint import Checkpoint
from .reason import told_as
from .stored import Stored

_PLACES = (0.0, 0.5, 1.0)  # of each dimension: where numbers are looked at
_LONGEST = 1024  # numbers looked at in one place


def fingerprint(checkpoint: Checkpoint, adapters: Sequence[Adapter] = ()) -> str:
    """Of the model type and, for each tensor, its name, shape, type and some of its numbers; adapters count, in order.

    Reads some kilobytes of each tensor. Raises CheckpointError where the files are gone or damaged.
    """
    digest = hashlib.sha256()
    parts = (checkpoint.tensors, *(adapter.tensors for adapter in adapters))
    with told_as(CheckpointError, f"{checkpoint.folder} cannot be told from other models"):
        digest.update(_line([1, checkpoint.config.get("model_type")]))  # 1: should any of this change
        for tensors in parts:
            digest.update(_line(["part", len(tensors)]))
            for name, seen in sorted(_samples(tensors.items())):
                digest.update(_line([name, list(tensors[name].shape), tensors[name].dtype]))
                digest.update(seen)
    return digest.hexdigest()[:32]


def _line(facts: list[Any]) -> bytes:
    return json.dumps(facts).encode() + b"\n"


def _samples(tensors: Iterable[tuple[str, Stored]]) -> Iterable[tuple[str, bytes]]:
    """Some bytes of each tensor, read file by file."""
    by_file = sorted(tensors, key=lambda pair: str(pair[1].file))
    for file, group in groupby(by_file, key=lambda pair: pair[1].file):
        with safe_open(file, framework="pt") as weights:
            for name, stored in group:
                yield name, _sample(weights, name, stored.shape)


def _sample(weights: Any, name: str, shape: tuple[int, ...]) -> bytes:
    """Short runs along the last dimension: at the beginning, in the middle, at the end."""
    if not shape or 0 in shape:
        return _bytes(weights.get_tensor(name))
    run = min(_LONGEST, shape[-1])
    seen = []
    for place in _PLACES:
        starts = [round(place * (size - 1)) for size in shape[:-1]]
        last = round(place * (shape[-1] - run))
        index = (*(slice(start, start + 1) for start in starts), slice(last, last + run))
        seen.append(_bytes(weights.get_slice(name)[index if len(index) > 1 else index[0]]))
    return b"".join(seen)


def _bytes(numbers: Tensor) -> bytes:
    return numbers.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
