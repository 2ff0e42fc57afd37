"""Recipes as TOML or JSON files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ..errors import UsageError


def read_recipe_file(path: Path) -> dict[str, Any]:
    """Names and values, for ``Recipe.of``. Raises UsageError where the file cannot be read or is something else."""
    try:
        text = path.expanduser().read_text(encoding="utf-8-sig")
        content = json.loads(text) if path.suffix == ".json" else _toml(path, text)
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"the recipe {path} cannot be read: {reason}; give a .toml or .json file") from error
    if not isinstance(content, dict):
        raise UsageError(f"the recipe {path} is no object of names and values: write them as {{...}}")
    return content


def _toml(path: Path, text: str) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib.loads(text)
    raise UsageError(f"the recipe {path} is TOML, which takes Python 3.11 or newer to read: write it as JSON")
