"""The tensors of a model's safetensors files, from their headers: names, shapes and types, but no weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from ..errors import CheckpointError
from .json_file import read_json
from .reason import reason, shown

_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2}  # all others take one
_NAMES = {
    **{"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"},
    **{"I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8"},
    **{"F8_E4M3": "float8_e4m3", "F8_E5M2": "float8_e5m2"},
}


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor as its file's header describes it."""

    file: Path
    shape: tuple[int, ...]
    dtype: str

    @property
    def count(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.count * _BYTES.get(self.dtype, 1)


def stored_tensors(files: Iterable[Path]) -> dict[str, Stored]:
    """By name. Raises CheckpointError where a file is missing, truncated or damaged."""
    found: dict[str, Stored] = {}
    for file in files:
        if not file.is_file():
            raise CheckpointError(
                f"{file} is missing, but the index names it: the download is incomplete, fetch it again"
            )
        try:
            found.update(_header(file))
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{file} is truncated or damaged ({reason(error)}): fetch the model again") from error
    return found


def _header(file: Path) -> dict[str, Stored]:
    with safe_open(file, framework="pt") as weights:
        slices = {name: weights.get_slice(name) for name in weights.keys()}  # noqa: SIM118  # no mapping
        return {name: Stored(file, tuple(s.get_shape()), str(s.get_dtype())) for name, s in slices.items()}


def main_dtype(tensors: Mapping[str, Stored]) -> str:
    """What most of the bytes are, in torch's words."""
    by_type: Counter[str] = Counter()
    for tensor in tensors.values():
        by_type[tensor.dtype] += tensor.bytes
    return dtype_name(by_type.most_common(1)[0][0]) if by_type else "none"


def dtype_name(dtype: str) -> str:
    return _NAMES.get(dtype, dtype.lower())


def weight_files(folder: Path, config: Mapping[str, Any]) -> list[Path]:
    """The safetensors files of a model, shards included, which transformers will take; none where there are none.

    Raises CheckpointError where the index is damaged, or names what lies elsewhere.
    """
    named = config.get("transformers_weights")
    if named is not None:
        return [folder / _inside(folder / "config.json", named)]
    index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
    shards = _shards(index) if index.is_file() else []
    if single.is_file() and all(shard.is_file() for shard in shards):
        return [single]
    return shards or sorted(folder.glob("*.safetensors"))


def _shards(index: Path) -> list[Path]:
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise CheckpointError(f"{index} has no weight_map: the download is incomplete or damaged, fetch it again")
    names = {_inside(index, name) for name in shards.values()}
    return [index.parent / name for name in sorted(names)]


def _inside(where: Path, name: object) -> str:
    """A file name that leads nowhere else."""
    if not isinstance(name, str) or not name.endswith(".safetensors"):
        raise CheckpointError(f"{where} names {shown(name)} as a weight file, not a *.safetensors file: fetch it again")
    if name != Path(name).name or "\\" in name or "\0" in name:
        raise CheckpointError(f"{where} names {shown(name)} as a weight file, outside of its own folder: refused")
    return name
