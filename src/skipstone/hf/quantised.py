"""Checkpoints with quantised weights: what they are, and why their linears keep their own modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import UnsupportedModel
from .reason import reason

_NEEDS_GPU = ("bitsandbytes", "awq", "gptq", "fbgemm_fp8", "fp8", "mxfp4", "eetq", "bitnet")


def method_of(config: Mapping[str, Any]) -> str:
    """The name of the quantisation a config.json names; empty where the weights are plain numbers."""
    settings = config.get("quantization_config")
    if not isinstance(settings, Mapping):
        return ""
    method = settings.get("quant_method")
    if method is None and (settings.get("load_in_4bit") or settings.get("load_in_8bit")):
        return "bitsandbytes"
    return method if isinstance(method, str) and 0 < len(method) < 40 else "an unnamed method"


def cannot_load(folder: object, method: str, error: BaseException) -> UnsupportedModel:
    """What to say where transformers cannot load quantised weights on this machine."""
    import torch

    needs = ", which needs a GPU," if method in _NEEDS_GPU and not torch.cuda.is_available() else ""
    return UnsupportedModel(
        f"{folder} is quantised with {method}{needs} and cannot be loaded here ({reason(error)}): use the model's "
        "original weights, or a GGUF file"
    )


def own_modules(model: Any) -> str:
    """Why the model's linears must keep their own modules; empty where their weights are plain tensors.

    What packs, merges or moves weights must leave such a model alone.
    """
    quantizer = getattr(model, "hf_quantizer", None)
    if quantizer is not None:
        method = getattr(quantizer.quantization_config, "quant_method", "an unnamed method")
        return f"its weights are quantised with {getattr(method, 'value', method)}"
    if any(hasattr(module, "_hf_hook") for module in model.modules()):
        return "its weights are moved in and out as they are needed"
    if any(hasattr(module, "lora_A") for module in model.modules()):
        return "its adapter is not merged"
    return ""
