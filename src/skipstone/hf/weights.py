"""A checked folder's weights into a transformers model: all of them, or an error that names what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..errors import CheckpointError, SkipstoneError, out_of_memory
from .checkpoint import Checkpoint
from .placing import DeviceMap, moved_in, placing
from .quantised import cannot_load, method_of
from .quiet import quiet
from .reason import told_as
from .skeleton import Skeleton, layer_names, skeletons


def load_weights(
    checkpoint: Checkpoint, dtype: torch.dtype | str, device: torch.device, device_map: DeviceMap | None = None
) -> Any:
    """The transformers model in eval mode. Raises CheckpointError unless every weight came from the files."""
    where = placing(device_map, device)
    problem = ""
    for skeleton in skeletons(checkpoint):
        model, found = _load(checkpoint, skeleton, dtype, where)
        if not found:
            moved_in(model)
            return (model if where or _has_place(model) else model.to(device)).eval().requires_grad_(False)
        problem = problem or found
    raise CheckpointError(f"{checkpoint.folder} {problem}: the weights do not belong to this config.json")


def _has_place(model: Any) -> bool:
    """Quantised weights lie where they were put, or refuse to be moved."""
    return getattr(model, "hf_quantizer", None) is not None


def _load(checkpoint: Checkpoint, skeleton: Skeleton, dtype: torch.dtype | str, where: Mapping[str, Any]) -> Any:
    """The model, and what is wrong with it, if anything."""
    method = method_of(checkpoint.config)
    with quiet(), told_as(CheckpointError, f"{checkpoint.folder} cannot be loaded"):
        try:
            model, info = skeleton.auto_class.from_pretrained(
                checkpoint.folder,
                config=skeleton.config,
                dtype=dtype,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                ignore_mismatched_sizes=True,  # told below, with names
                output_loading_info=True,
                adapter_kwargs={"subfolder": "none"},  # adapters are ours to merge
                **where,
            )
        except Exception as error:
            if not method or isinstance(error, SkipstoneError) or out_of_memory(error):
                raise
            raise cannot_load(checkpoint.folder, method, error) from error
        return model, problem_of(info, model)


def problem_of(info: Mapping[str, Any], model: Any) -> str:
    """Where files and config do not mean the same weights; empty where they do."""
    problem = ""
    if missing := sorted(info.get("missing_keys") or []):
        problem = f"lacks {len(missing)} weights ({missing[0]}, …)"
    if mismatched := sorted(info.get("mismatched_keys") or []):
        name, have, want = mismatched[0]
        problem = f"has {len(mismatched)} weights of another shape ({name} is {list(have)}, not {list(want)})"
    known, extra = layer_names(model.state_dict()), layer_names(info.get("unexpected_keys") or [])
    for kind, last in extra.items():
        if last > known.get(kind, last):
            problem = f"has weights of layer {last}, but num_hidden_layers is {known[kind] + 1}"
    return problem
