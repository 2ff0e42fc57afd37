"""From a model folder to a checked network and its tokenizer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import CheckpointError, UsageError, did_you_mean, out_of_memory
from .checkpoint import check_folder
from .fit import fit
from .network import HFNetwork
from .quiet import quiet
from .reason import reason
from .tokenizer import HFTokenizer


@dataclass(frozen=True)
class LoadedModel:
    """A network, its tokenizer, and what the model's generation_config asks for."""

    name: str
    network: HFNetwork
    tokenizer: HFTokenizer
    generation: dict[str, Any]
    parity_gap: float


def load_folder(folder: Path, *, name: str = "", dtype: str = "auto", device: str = "auto") -> LoadedModel:
    """Load a Hugging Face folder and check our pass against the model's own.

    ``dtype`` auto is float32 on a CPU and the checkpoint's own elsewhere. Raises ModelNotFound, CheckpointError,
    UnsupportedModel, ParityError, UsageError.
    """
    check_folder(folder)
    target = pick_device(device)
    model = load_causal_lm(folder, pick_dtype(dtype, target), target)
    network, gap = fit(model)
    return LoadedModel(name or str(folder), network, HFTokenizer.load(folder), _generation(model), gap)


def load_causal_lm(folder: Path, dtype: torch.dtype | str, device: torch.device) -> Any:
    """The transformers model in eval mode. Raises CheckpointError unless every weight came from the files."""
    import transformers

    loader: Any = transformers.AutoModelForCausalLM
    with quiet():
        try:
            model, info = loader.from_pretrained(
                folder,
                dtype=dtype,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                ignore_mismatched_sizes=True,  # told below, with names
                output_loading_info=True,
            )
        except Exception as error:  # whatever a damaged file or an odd config makes transformers raise
            if out_of_memory(error):
                raise
            raise CheckpointError(f"{folder} cannot be loaded: {reason(error)}") from error
    _check_keys(folder, info, model.config.num_hidden_layers)
    return model.to(device).eval().requires_grad_(False)


def _check_keys(folder: Path, info: dict[str, Any], num_layers: int) -> None:
    """Raise CheckpointError unless files and config mean the same weights."""
    problem = ""
    if missing := sorted(info.get("missing_keys") or []):
        problem = f"lacks {len(missing)} weights ({missing[0]}, …)"
    if mismatched := sorted(info.get("mismatched_keys") or []):
        name, have, want = mismatched[0]
        problem = f"has {len(mismatched)} weights of another shape ({name} is {list(have)}, not {list(want)})"
    layers = [
        int(number) for key in info.get("unexpected_keys") or [] for number in re.findall(r"layers\.(\d+)\.", key)
    ]
    if layers and max(layers) >= num_layers:
        problem = f"has weights of layer {max(layers)}, but num_hidden_layers is {num_layers}"
    if problem:
        raise CheckpointError(f"{folder} {problem}: the weights do not belong to this config.json")


def _generation(model: Any) -> dict[str, Any]:
    return dict(model.generation_config.to_dict()) if model.generation_config is not None else {}


def pick_device(device: str) -> torch.device:
    """``auto`` is the first GPU where there is one. Raises UsageError for a device torch does not have."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        target = torch.device(device)
        torch.empty(1, device=target)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f'device "{device}" cannot be used ({reason(error)}): try cpu, cuda or auto') from error
    return target


def dtypes() -> dict[str, torch.dtype]:
    return {
        "float64": torch.float64,
        "float32": torch.float32,
        "bfloat16": torch.bfloat16,
        "float16": torch.float16,
    }


def pick_dtype(dtype: str, device: torch.device) -> torch.dtype | str:
    """``auto`` is float32 on a CPU, whose half-precision products are slow, and the checkpoint's own elsewhere."""
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else "auto"
    if dtype not in dtypes():
        raise UsageError(f'dtype "{dtype}" is not known: {did_you_mean(dtype, [*dtypes(), "auto"])}')
    return dtypes()[dtype]
