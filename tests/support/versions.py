"""What configurations are called before and since transformers 5."""

from __future__ import annotations

from typing import Any

import transformers

SINCE_5 = int(transformers.__version__.split(".")[0]) >= 5


def rope(kind: str, theta: float = 1e4, **parameters: Any) -> dict[str, Any]:
    """Configuration fields for rotary scaling of a kind."""
    if SINCE_5:
        return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **parameters}}
    return {"rope_theta": theta, "rope_scaling": {"rope_type": kind, **parameters}}
