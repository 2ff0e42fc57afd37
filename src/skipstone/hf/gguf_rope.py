"""Rotary scaling of GGUF files, which transformers leaves out when it reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UnsupportedModel
from .gguf_header import GgufHeader, GgufTensor

_FACTORS = "rope_freqs.weight"
# how Llama 3.1 and its successors were scaled; the file holds only what came of it
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def restore_rope(config: Any, header: GgufHeader, gguf: Path) -> None:
    """Put the file's rotary scaling into ``config``. Raises UnsupportedModel for one that is not known here."""
    scaling = _scaling(config, header, gguf)
    if not scaling or _has_scaling(config):
        return
    if getattr(config, "rope_parameters", None) is not None:  # transformers 5
        config.rope_parameters = {**config.rope_parameters, **scaling}
    else:
        config.rope_scaling = scaling


def _has_scaling(config: Any) -> bool:
    """Whether transformers did read it, after all."""
    parameters = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    return bool(parameters.get("rope_type", "default") != "default")


def _scaling(config: Any, header: GgufHeader, gguf: Path) -> dict[str, Any]:
    if _FACTORS in header.tensors:
        return _llama3(config, gguf, header.tensors[_FACTORS])
    kind, factor = header.of_architecture("rope.scaling.type"), header.of_architecture("rope.scaling.factor")
    if kind in (None, "none") or not factor:
        return {}
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    original = header.of_architecture("rope.scaling.original_context_length")
    if kind == "yarn" and original:
        return {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
    raise UnsupportedModel(f"{gguf} has rotary scaling of the kind {kind}: use the model's folder with safetensors")


def _llama3(config: Any, gguf: Path, tensor: GgufTensor) -> dict[str, Any]:
    """The parameters that give the factors in the file."""
    factors = np.fromfile(gguf, dtype="<f4", count=tensor.shape[-1], offset=tensor.start)
    factor = float(factors.max())
    found = {"rope_type": "llama3", "factor": factor, **_LLAMA3}
    if tensor.kind != 0 or not np.allclose(factors, _factors(_theta(config), factor, 2 * len(factors)), rtol=1e-3):
        raise UnsupportedModel(f"{gguf} has rotary factors of its own: use the model's folder with safetensors")
    return found


def _theta(config: Any) -> float:
    parameters = getattr(config, "rope_parameters", None) or {}
    return float(parameters.get("rope_theta") or config.rope_theta)


def _factors(theta: float, factor: float, dim: int) -> Any:
    """What Llama 3 divides each rotary frequency by."""
    wavelength = 2 * np.pi * theta ** (np.arange(0, dim, 2) / dim)
    low, high, length = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"], 8192
    smooth = (length / wavelength - low) / (high - low)
    between = 1 / ((1 - smooth) / factor + smooth)
    return np.where(wavelength < length / high, 1.0, np.where(wavelength > length / low, factor, between))
