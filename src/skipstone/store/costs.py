"""Measured costs on disk: a network is timed once for each machine, number type and number of threads."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable
from pathlib import Path

import torch

from ..calibrate import measure
from ..cost import CostTable
from ..errors import StoreError, UsageError
from ..network import Network
from .atomic import set_aside, write_json
from .folders import Folders

FORMAT = 1
_LONGEST_MS = 1e9  # of a step: eleven days
_CPU_INFO = Path("/proc/cpuinfo")


def measured_costs(
    network: Network, label: str, folders: Folders, progress: Callable[[str], None], budget_s: float = 2.0
) -> CostTable:
    """The costs of ``network`` on this machine, from disk or measured now and kept. ``label`` as in ``cost_key``.

    What other work disturbed is measured again at the next start, and the calmer one stays. A disk that cannot be used
    is told, and never stops anything.
    """
    key = cost_key(network, label)
    kept = load_costs(folders.costs, key, progress)
    if kept is not None and kept.calm:
        return kept
    why = "once" if kept is None else "again, as other work disturbed it last time"
    progress(f"measuring what steps cost, {why} (about {budget_s:.0f} s)")
    table = min([*filter(None, [kept]), measure(network, budget_s)], key=lambda each: each.spread)
    try:
        save_costs(folders.costs, key, table)
    except StoreError as error:
        progress(f"the measured costs are not kept: {error}")
    return table


def cost_key(network: Network, label: str = "") -> str:
    """A fingerprint of what costs depend on. ``label`` adds what a network does not show: its model, its kernels."""
    slot = network.new_cache(1, 1)
    facts = {
        "class": f"{type(network).__module__}.{type(network).__qualname__}",
        "layers": network.num_layers,
        "vocab_size": network.vocab_size,
        "cached": [list(buffer.shape) for buffer in (*slot.keys, *slot.values)],
        "dtype": str(network.dtype),
        "device": device_name(network.device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "label": label,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def device_name(device: torch.device) -> str:
    """The make of a device; two of one make are alike."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} {cpu_name()}"


def machine_name(network: Network, weights: str) -> str:
    """What predicted speeds hold for: the device, its threads, and how it holds the weights."""
    dtype = str(network.dtype).removeprefix("torch.")
    kind = dtype if weights == "stock" else f"{weights} weights"
    threads = f", {torch.get_num_threads()} threads" if network.device.type == "cpu" else ""
    return f"{device_name(network.device)}{threads}, {kind}"


def cpu_name() -> str:
    """The model name of the processor where the system tells it, else what Python knows."""
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def load_costs(folder: Path, key: str, progress: Callable[[str], None]) -> CostTable | None:
    """The table kept under ``key``, or None. A file that cannot be used is told and set aside."""
    path = costs_file(folder, key)
    try:
        return _table(path.read_text(encoding="utf-8"), key)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, UsageError) as error:
        progress(f"{path}: kept costs cannot be used ({error})")
        _discard(path, progress)
        return None


def save_costs(folder: Path, key: str, table: CostTable) -> None:
    """Keep a table, complete or not at all. Raises StoreError where the disk is full or cannot be written."""
    write_json(costs_file(folder, key), {"format": FORMAT, "key": key, "table": table.to_json()})


def costs_file(folder: Path, key: str) -> Path:
    return folder / f"{key}.json"


def _table(text: str, key: str) -> CostTable:
    kept = json.loads(text)
    if not isinstance(kept, dict) or kept.get("format") != FORMAT or kept.get("key") != key:
        raise UsageError(f"it is not a cost file of format {FORMAT} for this network")
    table = CostTable.from_json(kept.get("table"))
    if not 0 < table.plain_ms < _LONGEST_MS:
        raise UsageError(f"by it a plain step takes {table.plain_ms:g} ms")
    return table


def _discard(path: Path, progress: Callable[[str], None]) -> None:
    try:
        set_aside(path)
    except OSError as error:
        progress(f"{path}: cannot be set aside ({error.strerror})")
