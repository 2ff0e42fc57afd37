"""``python -m skipstone.bench.efficiency.memory_run WHERE TOKENS``: load, decode, and say what memory that took."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import skipstone
from skipstone.bench.efficiency.traffic import empty_model
from skipstone.bench.efficiency.weights import as_asked
from skipstone.errors import UsageError
from skipstone.request import Request

_STATUS = Path("/proc/self/status")
_MB = 1e6
_PROMPT = [1, 2, 3, 4]


def main(argv: list[str]) -> None:
    where: dict[str, Any] = json.loads(argv[0])
    cache = Path(where["cache"]) if where.get("cache") else None
    model = skipstone.load(
        where["model"], dtype="float32", device="cpu", weights="float16", cache=cache, offline=bool(where["offline"])
    )
    as_asked(model.network, "float16")
    engine = model.engine(capacity=len(_PROMPT) + int(argv[1]) + 1)
    engine.admit(Request(_PROMPT, int(argv[1])))
    while engine.busy:
        engine.step()
    names = {"rss_mb": "VmRSS", "peak_mb": "VmHWM", "file_mb": "RssFile"}  # the last are mostly pages of libraries
    held = {name: _status(field) / _MB for name, field in names.items()}
    print(json.dumps({**held, "weights_mb": 2 * _count(model.network) / _MB}))


def _status(name: str) -> int:
    """Bytes. Raises UsageError where the system does not tell."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError as error:
        raise UsageError("this system does not tell what memory a process holds: use Linux") from error
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _count(network: Any) -> int:
    """Parameters of the model, each once."""
    return sum(parameter.numel() for parameter in empty_model(network).parameters())


if __name__ == "__main__":
    main(sys.argv[1:])
