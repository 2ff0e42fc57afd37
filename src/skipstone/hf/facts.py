"""Everything ``skipstone inspect`` tells of a model, from its settings and headers: no weight is read for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..errors import CheckpointError
from .adapters import Adapter
from .anatomy import Part, anatomy, is_tied, shape_of
from .body import body_of
from .cache_shapes import cache_shapes
from .checkpoint import Checkpoint, read_checkpoint
from .families import wirings_of
from .json_file import read_json
from .network import context_of
from .placing import pick_device, pick_dtype
from .quantised import method_of
from .quiet import quiet
from .reason import told_as
from .rotary import rope_parameters
from .skeleton import Skeleton, skeletons
from .stored import main_dtype
from .tokenizer import HFTokenizer
from .trained import exits_of
from .wiring import Wiring


@dataclass(frozen=True)
class Vocabulary:
    """``model`` rows of the LM head; ``tokenizer`` tokens that have a text. The rest is padding."""

    model: int
    tokenizer: int
    bos_id: int | None
    eos: dict[int, str]
    chat_template: bool


@dataclass(frozen=True)
class Attention:
    """How far a text and its layers reach."""

    context: int
    window: int | None
    windowed_layers: int
    rotary: dict[str, Any]


@dataclass(frozen=True)
class Memory:
    """Bytes. ``step`` is what one decode step of one row reads of the weights."""

    files: int
    weights: int
    token: int | None  # keys and values; None where it is not known before loading
    step: int
    head: int


@dataclass(frozen=True)
class Facts:
    """A model, described."""

    folder: str
    model_type: str
    model_class: str
    layers: int
    parameters: int
    parts: list[Part]
    tied: bool
    dtype_in_files: str
    dtype_in_memory: str
    quantised: str
    memory: Memory
    vocabulary: Vocabulary
    attention: Attention
    wiring: Wiring
    wirings_tried: int
    exits: list[int]
    adapters: list[str] = field(default_factory=list)

    @property
    def head_share(self) -> float:
        """Of the bytes of weights that a decode step reads."""
        return self.memory.head / self.memory.step if self.memory.step else 0.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "head_share": self.head_share, "shape": shape_of(self.wiring)}


def inspect_folder(
    folder: Path, *, adapters: Sequence[Adapter] = (), dtype: str = "auto", device: str = "auto"
) -> Facts:
    """Raises what loading the folder would raise, as far as it can be known without weights."""
    checkpoint = read_checkpoint(folder)
    skeleton = next(iter(skeletons(checkpoint)))
    with quiet(), told_as(CheckpointError, f"{folder} cannot be inspected", memory=True):
        in_memory = _dtype(checkpoint, skeleton, dtype, device)
        return _facts(checkpoint, skeleton, adapters, in_memory)


def _facts(checkpoint: Checkpoint, skeleton: Skeleton, adapters: Sequence[Adapter], dtype: torch.dtype) -> Facts:
    model, config = skeleton.model, skeleton.text_config
    _, layers = body_of(model)
    wirings = wirings_of(layers[0], config)
    parts = anatomy(model, wirings[0], config)
    return Facts(
        folder=str(checkpoint.folder),
        model_type=str(skeleton.config.model_type),
        model_class=type(model).__name__,
        layers=len(layers),
        parameters=sum(part.count for part in parts),
        parts=parts,
        tied=is_tied(model),
        dtype_in_files=main_dtype(checkpoint.tensors),
        dtype_in_memory=str(dtype).removeprefix("torch."),
        quantised=method_of(checkpoint.config),
        memory=_memory(checkpoint, model, wirings[0], parts, dtype),
        vocabulary=_vocabulary(checkpoint, skeleton, adapters),
        attention=_attention(config, len(layers)),
        wiring=wirings[0],
        wirings_tried=len(wirings),
        exits=exits_of(checkpoint.folder, checkpoint.config, adapters),
        adapters=[str(adapter) for adapter in adapters],
    )


def _dtype(checkpoint: Checkpoint, skeleton: Skeleton, dtype: str, device: str) -> torch.dtype:
    chosen = pick_dtype(dtype, pick_device(device))
    if isinstance(chosen, torch.dtype):
        return chosen
    in_config = getattr(skeleton.config, "dtype", None)
    in_files = getattr(torch, main_dtype(checkpoint.tensors), torch.float32)
    return in_config if isinstance(in_config, torch.dtype) else in_files


def _memory(checkpoint: Checkpoint, model: Any, wiring: Wiring, parts: list[Part], dtype: torch.dtype) -> Memory:
    """Quantised weights stay about as large as their files; all others take their dtype's bytes each."""
    count = sum(part.count for part in parts)
    size: float = dtype.itemsize
    if method_of(checkpoint.config):
        size = checkpoint.bytes / max(count, 1)
    head = model.get_output_embeddings().weight.numel()
    active = sum(part.active for part in parts)
    shapes = cache_shapes(model, wiring)
    token = sum(s.heads * (s.key_dim + s.value_dim) for s in shapes) * dtype.itemsize
    return Memory(checkpoint.bytes, round(count * size), token or None, round(active * size), round(head * size))


def _vocabulary(checkpoint: Checkpoint, skeleton: Skeleton, adapters: Sequence[Adapter]) -> Vocabulary:
    own = [adapter.folder for adapter in adapters if HFTokenizer.lies_in(adapter.folder)]
    tokenizer = HFTokenizer.load(own[-1] if own else checkpoint.folder)
    rows = int(skeleton.model.get_output_embeddings().weight.shape[0])
    eos = {token: tokenizer.token(token) for token in _eos(checkpoint, tokenizer)}
    return Vocabulary(rows, tokenizer.size, tokenizer.bos_id, eos, tokenizer.has_chat)


def _eos(checkpoint: Checkpoint, tokenizer: HFTokenizer) -> list[int]:
    """As generation takes them: generation_config.json before config.json before the tokenizer."""
    file = checkpoint.folder / "generation_config.json"
    settings = read_json(file) if file.is_file() else checkpoint.config
    for given in (settings.get("eos_token_id"), tokenizer.eos_id):
        tokens = given if isinstance(given, list) else [given]
        if known := [token for token in tokens if isinstance(token, int)]:
            return known
    return []


def _attention(config: Any, layers: int) -> Attention:
    """Windows as the configuration names them; loading measures them."""
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    windowed = layers if kinds is None else sum(kind == "sliding_attention" for kind in kinds)
    if window is None or not windowed:
        window, windowed = None, 0
    return Attention(context_of(config), window, windowed, dict(rope_parameters(config)))
