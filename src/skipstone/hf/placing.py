"""Where weights lie: the device asked for, or spread over memory and disk with a device map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..errors import UsageError, did_you_mean
from .reason import reason

DeviceMap = str | Mapping[str, Any]


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


def placing(device_map: DeviceMap | None, device: torch.device) -> dict[str, Any]:
    """What transformers is told of a device map. ``auto``: on ``device``, what has no room there in main memory.

    Raises UsageError where layers would run on several devices: keys and values lie on one.
    """
    if device_map is None:
        return {}
    if isinstance(device_map, str):
        if device_map != "auto":
            raise UsageError(f'device_map "{device_map}" is not known: use auto, or a dictionary of module names')
        return {"device_map": "auto", "max_memory": _one_device(device)}
    runs_on = {str(place) for place in device_map.values()} - {"cpu", "disk"}
    if len(runs_on) > 1:
        raise UsageError(
            f"device_map runs layers on {' and '.join(sorted(runs_on))}: use one device, and cpu or disk for what has "
            "no room on it"
        )
    if set(map(str, device_map.values())) == {"disk"}:
        raise _nothing_here()
    return {"device_map": dict(device_map)}


def _one_device(device: torch.device) -> dict[Any, int] | None:
    """Memory of the chosen device and the host; other GPUs stay idle."""
    if device.type != "cuda":
        return None
    from accelerate.utils import get_max_memory

    index, found = device.index or 0, get_max_memory()
    return {place: room for place, room in found.items() if place in (index, "cpu")}


def moved_in(model: Any) -> str:
    """Which part of a model's weights is fetched when it runs; empty where all of them lie on its device.

    Raises UsageError where the embeddings are among them: where they lie is where texts begin.
    """
    places: Mapping[str, Any] = getattr(model, "hf_device_map", None) or {}
    if len(set(places.values())) < 2 and "disk" not in places.values():
        return ""
    if model.device.type == "meta":
        raise _nothing_here()
    away = sum(str(place) in ("cpu", "disk") and str(place) != model.device.type for place in places.values())
    return f"{away} of {len(places)} parts of the model are fetched from main memory or disk at every step"


def _nothing_here() -> UsageError:
    return UsageError("device_map leaves the embeddings on the disk: keep them in memory")
