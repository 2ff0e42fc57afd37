"""Whether a model folder can be loaded, found out before transformers tries: files there, whole, and of a safe kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, ModelNotFound
from .json_file import read_json
from .reason import shown, told_as
from .stored import Stored, stored_tensors, weight_files

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


@dataclass(frozen=True)
class Checkpoint:
    """A folder whose settings and weight files are whole, with what they say. No weight has been read."""

    folder: Path
    config: dict[str, Any]
    tensors: dict[str, Stored]

    @property
    def count(self) -> int:
        """Numbers in the files."""
        return sum(tensor.count for tensor in self.tensors.values())

    @property
    def bytes(self) -> int:
        return sum(tensor.bytes for tensor in self.tensors.values())


def read_checkpoint(folder: Path) -> Checkpoint:
    """Raises ModelNotFound or CheckpointError unless ``folder`` holds sound settings and whole safetensors files."""
    with told_as(CheckpointError, f"{folder} cannot be read"):
        if not (folder / "config.json").is_file():
            raise ModelNotFound(f"{folder} has no config.json: give the folder of a Hugging Face model, or a GGUF file")
        _check_kinds(folder)
        config = read_json(folder / "config.json")
        check_numbers(folder / "config.json", config)
        if (folder / "generation_config.json").is_file():
            read_json(folder / "generation_config.json")
        files = weight_files(folder, config)
        if not files:
            raise _no_weights(folder)
        tensors = stored_tensors(files)
        _check_embeddings(config, tensors)
        return Checkpoint(folder, config, tensors)


def _check_kinds(folder: Path) -> None:
    """A pipe or device under the name of a model's file would be waited for without end."""
    for path in folder.iterdir():
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise CheckpointError(f"{path} is neither a file nor a folder: fetch the model again")


def check_numbers(file: Path, config: Mapping[str, Any]) -> None:
    """Sizes no model has would make transformers build it for minutes, or fail with the arithmetic of its insides."""
    for part in _parts(config):
        for name, most in _SIZES.items():
            value, least = part.get(name), 0 if name in _MAY_BE_ZERO else 1
            if isinstance(value, int | float) and not least <= value <= most:
                raise CheckpointError(f"{file} says {name}={shown(value)}, which no model has: fetch the model again")


def _parts(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A config and those of the models inside it."""
    yield config
    for name, value in config.items():
        if name.endswith("_config") and isinstance(value, dict) and name != "quantization_config":
            yield from _parts(value)


LONGEST = 2**24  # tokens of context: masks are measured over all of it
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_MAY_BE_ZERO = (*_EXPERTS, "num_labels")
_SIZES = {
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers"), 2**12),
    **dict.fromkeys(("num_attention_heads", "num_key_value_heads", "n_head", "n_heads"), 2**12),
    **dict.fromkeys(("hidden_size", "intermediate_size", "n_embd", "d_model", "moe_intermediate_size"), 2**20),
    **dict.fromkeys(_EXPERTS, 2**13),
    "head_dim": 2**14,
    "num_labels": 2**20,  # of classifiers, but transformers names them all for any model
    "vocab_size": 2**24,
    "max_position_embeddings": LONGEST,
}


def _no_weights(folder: Path) -> CheckpointError:
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if pickles:
        return CheckpointError(
            f"{folder / pickles[0]} is a pickle checkpoint, which can run code when read: refused; "
            "convert it to safetensors (model.save_pretrained of a current transformers does) or use a GGUF file"
        )
    return CheckpointError(f"{folder} has no *.safetensors file: its weights are missing")


def _check_embeddings(config: Mapping[str, Any], tensors: Mapping[str, Stored]) -> None:
    width = "word_embed_proj_dim" if config.get("word_embed_proj_dim") else "hidden_size"  # opt may have narrow ones
    want = [config.get("vocab_size"), config.get(width)]
    if None in want or config.get("quantization_config") or config.get("text_config"):
        return
    for name, tensor in tensors.items():
        have = list(tensor.shape)
        if name.endswith("embed_tokens.weight") and have != want:
            raise CheckpointError(
                f"{tensor.file} has embeddings of shape {have}, but config.json says vocab_size={shown(want[0])} and "
                f"{width}={shown(want[1])}: the weights do not belong to this config.json"
            )
