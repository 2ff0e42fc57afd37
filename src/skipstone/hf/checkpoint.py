"""Whether a model folder can be loaded, found out before transformers tries: files there, whole, and of a safe kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from ..errors import CheckpointError, ModelNotFound

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def check_folder(folder: Path) -> None:
    """Raise ModelNotFound or CheckpointError unless ``folder`` holds sound settings and whole safetensors files."""
    if not (folder / "config.json").is_file():
        raise ModelNotFound(f"{folder} has no config.json: give the folder of a Hugging Face model, or a .gguf file")
    config = read_json(folder / "config.json")
    _check_numbers(folder, config)
    if (folder / "generation_config.json").is_file():
        read_json(folder / "generation_config.json")
    files = weight_files(folder)
    if not files:
        raise _no_weights(folder)
    for file in files:
        _check_safetensors(file, config)


def _check_numbers(folder: Path, config: dict[str, Any]) -> None:
    """Sizes no model has would make transformers build it for minutes, or fail with the arithmetic of its insides."""
    for name, most in _SIZES.items():
        value = config.get(name)
        if isinstance(value, int) and not 1 <= value <= most:
            file = folder / "config.json"
            raise CheckpointError(f"{file} says {name}={value}, which no model has: fetch the model again")


_SIZES = {
    "num_hidden_layers": 2**12,
    "num_attention_heads": 2**12,
    "num_key_value_heads": 2**12,
    "head_dim": 2**14,
    "hidden_size": 2**20,
    "intermediate_size": 2**20,
    "vocab_size": 2**24,
    "max_position_embeddings": 2**40,
}


def _no_weights(folder: Path) -> CheckpointError:
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if pickles:
        return CheckpointError(
            f"{folder / pickles[0]} is a pickle checkpoint, which can run code when read: refused; "
            "convert it to safetensors (model.save_pretrained of a current transformers does) or use a GGUF file"
        )
    return CheckpointError(f"{folder} has no *.safetensors file: its weights are missing")


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a model, shards included. Raises CheckpointError where the index is damaged."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return sorted(folder.glob("*.safetensors"))
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
        raise CheckpointError(f"{index} has no weight_map: the download is incomplete or damaged, fetch it again")
    return [folder / Path(name).name for name in sorted(set(shards.values()))]


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object. Raises CheckpointError where the file holds anything else."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read ({error}): fetch the model again") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{file} is not a JSON object: fetch the model again")
    return content


def _check_safetensors(file: Path, config: dict[str, Any]) -> None:
    if not file.is_file():
        raise CheckpointError(f"{file} is missing, but the index names it: the download is incomplete, fetch it again")
    try:
        with safe_open(file, framework="pt") as weights:
            names: list[str] = weights.keys()
            embeddings = [name for name in names if name.endswith("embed_tokens.weight")]
            shapes = [weights.get_slice(name).get_shape() for name in embeddings]
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{file} is truncated or damaged ({error}): fetch the model again") from error
    want = [config.get("vocab_size"), config.get("hidden_size")]
    for shape in shapes:
        if None not in want and shape != want:
            raise CheckpointError(
                f"{file} has embeddings of shape {shape}, but config.json says vocab_size={want[0]} and "
                f"hidden_size={want[1]}: the weights do not belong to this config.json"
            )
