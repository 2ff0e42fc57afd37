"""The header of a GGUF file, read with every bound checked: the readers that come after it trust what it says.

gguf's own reader walks arrays past the end of a damaged file for as long as their length says, which may be forever.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class GgufTensor:
    shape: tuple[int, ...]  # as torch writes shapes
    kind: int  # GGMLQuantizationType
    start: int  # in the file


@dataclass(frozen=True)
class GgufHeader:
    """``metadata`` has numbers and texts as they are; of an array, its length."""

    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]

    @property
    def count(self) -> int:
        """Weights in the file."""
        return sum(prod(tensor.shape) for tensor in self.tensors.values())

    def of_architecture(self, name: str) -> Any:
        """``name`` behind the architecture's own prefix; None where the file does not say."""
        return self.metadata.get(f"{self.metadata.get('general.architecture')}.{name}")


def read_gguf_header(file: Path) -> GgufHeader:
    """Raises ValueError and OSError for a file that is damaged or none."""
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        cursor = _Cursor(data)
        tensor_count, entry_count = cursor.beginning()
        metadata = dict(cursor.entry() for _ in range(entry_count))
        table = [cursor.tensor() for _ in range(tensor_count)]
        header = GgufHeader(metadata, _placed(table, _aligned(cursor.at, metadata), len(data)))
    _check(header)
    return header


class _Cursor:
    """Reads on, and never beyond the end."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise ValueError("it ends in the middle of its header")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self) -> str:
        return self.take(self.number("<Q")).decode("utf-8")

    def beginning(self) -> tuple[int, int]:
        """How many tensors and metadata entries follow."""
        if self.take(4) != b"GGUF":
            raise ValueError("it does not begin as GGUF files do")
        version = self.number("<I")
        if version not in (2, 3):
            raise ValueError(f"its version is {version}, not 2 or 3")
        return self.number("<Q"), self.number("<Q")

    def entry(self) -> tuple[str, Any]:
        name = self.text()
        return name, self.value(self.number("<I"))

    def value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self.array(self.number("<I"), self.number("<Q"))
        raise ValueError(f"it has metadata of the unknown kind {kind}")

    def array(self, kind: int, count: int) -> int:
        if kind in _SCALARS:
            self.take(count * struct.calcsize(_SCALARS[kind]))
        elif kind == _STRING:
            for _ in range(count):
                self.text()
        else:
            raise ValueError(f"it has an array of the unknown kind {kind}")
        return count

    def tensor(self) -> tuple[str, GgufTensor]:
        """Name and place of a tensor; ``start`` still counts from where the data begin."""
        name, dims = self.text(), self.number("<I")
        if dims > 4:
            raise ValueError(f"{name} has {dims} dimensions")
        shape = tuple(self.number("<Q") for _ in range(dims))[::-1]
        return name, GgufTensor(shape, self.number("<I"), self.number("<Q"))


def _aligned(end: int, metadata: dict[str, Any]) -> int:
    """Where the data begin, behind a header that ends at ``end``."""
    step = metadata.get("general.alignment", 32)
    if not isinstance(step, int) or not 8 <= step <= 2**16 or step & (step - 1):
        raise ValueError(f"its alignment is {step}")
    return -(-end // step) * step


def _placed(table: list[tuple[str, GgufTensor]], begin: int, size: int) -> dict[str, GgufTensor]:
    placed: dict[str, GgufTensor] = {}
    for name, tensor in table:
        start = begin + tensor.start
        if name in placed:
            raise ValueError(f"it holds {name} twice")
        if start + _bytes(name, tensor) > size:
            raise ValueError(f"it ends in the middle of {name}")
        placed[name] = GgufTensor(tensor.shape, tensor.kind, start)
    return placed


def _bytes(name: str, tensor: GgufTensor) -> int:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    block, size = GGML_QUANT_SIZES[GGMLQuantizationType(tensor.kind)]
    if not tensor.shape or 0 in tensor.shape or tensor.shape[-1] % block:
        raise ValueError(f"{name} has the shape {list(tensor.shape)}")
    return int(prod(tensor.shape) // block * size)


_MOST = {
    **{"block_count": 2**12, "embedding_length": 2**20, "feed_forward_length": 2**20, "context_length": 2**24},
    **{"attention.head_count": 2**12, "attention.head_count_kv": 2**12, "attention.key_length": 2**14},
    **{"attention.value_length": 2**14, "rope.dimension_count": 2**14, "vocab_size": 2**24},
    **{"expert_count": 2**13, "expert_used_count": 2**13, "expert_feed_forward_length": 2**20},
}


def _check(header: GgufHeader) -> None:
    """Sizes no model has."""
    for name, most in _MOST.items():
        value, least = header.of_architecture(name), 0 if name.startswith("expert") else 1
        if value is not None and (not isinstance(value, int) or not least <= value <= most):
            raise ValueError(f"it says {name}={value}, which no model has")
    blocks = header.of_architecture("block_count") or 0
    if blocks > len(header.tensors):
        raise ValueError(f"it says block_count={blocks}, but holds {len(header.tensors)} tensors")
