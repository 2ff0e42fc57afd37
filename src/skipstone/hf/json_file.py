"""JSON files of a model folder, read or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import CheckpointError


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object. Raises CheckpointError where the file holds anything else."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise CheckpointError(f"{file} is nested too deeply to be read: fetch the model again") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read ({error}): fetch the model again") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{file} is not a JSON object: fetch the model again")
    return content
