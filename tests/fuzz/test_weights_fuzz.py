"""However weight files and their index are spoilt: an error of ours in one line, or a model that passes parity."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fuzzing import HOSTILE, cases, obeys, rng_of, spoil_bytes, spoil_json, whole_model, write

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


def header_of(file: Path) -> tuple[dict[str, Any], bytes]:
    content = file.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def with_header(file: Path, header: Any, data: bytes, size: int | None = None) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text) if size is None else size) + text + data)


@cases(60)
def test_values_of_the_weights_header(folder: Path, seed: int) -> None:
    rng, file = rng_of("header", seed), folder / WEIGHTS
    header, data = header_of(file)
    (folder / "header.json").write_text(json.dumps(header))
    spoil_json(folder / "header.json", rng)
    with_header(file, (folder / "header.json").read_bytes(), data)
    obeys(lambda: whole_model(folder))


@cases(40)
def test_bytes_of_the_weights_header(folder: Path, seed: int) -> None:
    header, _ = header_of(folder / WEIGHTS)
    spoil_bytes(folder / WEIGHTS, rng_of("header bytes", seed), within=(0, len(json.dumps(header))))
    obeys(lambda: whole_model(folder))


CLAIMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "100 GB": lambda h: {**h, "lm_head.weight": tensor([269, 93_000_000], 0, 100 * 10**9)},
    "a negative shape": lambda h: {**h, "lm_head.weight": tensor([-269, -32], 0, 34432)},
    "a shape beyond all numbers": lambda h: {**h, "lm_head.weight": tensor([2**62, 2**62], 0, 8)},
    "no shape": lambda h: {**h, "lm_head.weight": tensor([], 0, 4)},
    "an empty shape": lambda h: {**h, "lm_head.weight": tensor([0, 32], 0, 0)},
    "offsets the wrong way round": lambda h: {**h, "lm_head.weight": tensor([269, 32], 34432, 0)},
    "overlapping tensors": lambda h: {name: {**t, "data_offsets": [0, 34432]} for name, t in h.items()},
    "another type": lambda h: {**h, "lm_head.weight": {**h["lm_head.weight"], "dtype": "F64"}},
    "a type that is none": lambda h: {**h, "lm_head.weight": {**h["lm_head.weight"], "dtype": "X9"}},
    "no tensors": lambda h: {},
    "only metadata": lambda h: {"__metadata__": {"format": "pt"}},
    "odd metadata": lambda h: {**h, "__metadata__": {"format": "tf"}},
    "metadata of numbers": lambda h: {**h, "__metadata__": {"format": 3}},
    "a list": lambda h: list(h),
}


def tensor(shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize("claim", CLAIMS)
def test_headers_that_claim_what_cannot_be(folder: Path, claim: str) -> None:
    header, data = header_of(folder / WEIGHTS)
    with_header(folder / WEIGHTS, CLAIMS[claim](header), data)
    assert obeys(lambda: whole_model(folder)) != "works" or claim == "odd metadata"


@pytest.mark.parametrize("size", [0, 1, 2**20, 2**31, 2**32, 2**63, 2**64 - 1, 100 * 10**9])
def test_header_lengths_that_are_wrong(folder: Path, size: int) -> None:
    header, data = header_of(folder / WEIGHTS)
    with_header(folder / WEIGHTS, header, data, size)
    assert obeys(lambda: whole_model(folder)) == "CheckpointError"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e38, 0.0])
@pytest.mark.parametrize("name", ["lm_head.weight", "model.layers.1.mlp.up_proj.weight", "model.norm.weight"])
def test_weights_that_are_no_numbers(folder: Path, name: str, value: float) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / WEIGHTS)
    weights[name] = torch.full_like(weights[name], value)
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    obeys(lambda: whole_model(folder))


@cases(25)
def test_bytes_of_the_weights(folder: Path, seed: int) -> None:
    spoil_bytes(folder / WEIGHTS, rng_of("data", seed))
    obeys(lambda: whole_model(folder))


@cases(40)
def test_values_of_the_index(sharded: Path, tmp_path: Path, seed: int) -> None:
    folder, rng = Path(shutil.copytree(sharded, tmp_path / "model")), rng_of("index", seed)
    if seed % 2:
        spoil_json(folder / INDEX, rng)
    else:
        content = json.loads((folder / INDEX).read_text())
        names = content["weight_map"]
        for key in rng.sample(sorted(names), rng.choice([1, 3, len(names)])):
            names[key] = rng.choice(
                [*HOSTILE, "../model/model.safetensors", "model-00001-of-00009.safetensors", "config.json"]
            )
        write(folder / INDEX, content, rng)
    obeys(lambda: whole_model(folder))
