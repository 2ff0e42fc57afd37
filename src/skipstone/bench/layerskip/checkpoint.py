"""What a checkpoint says of itself: which exits it was trained for, and what it started from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...errors import ModelNotFound
from ...hf.json_file import read_json
from ...hf.trained import exits_of
from ...text.locate import DEFAULT_MODEL, Finder

OURS = Path("checkpoints/smollm2-135m-layerskip/adapter")  # in a checkout, where commands run


@dataclass(frozen=True)
class Checkpoint:
    """``base`` is the model it started from; ``exits`` are those it was trained for, none where it records none."""

    name: str
    base: str
    exits: tuple[int, ...]


def checkpoint_of(name: str, finder: Finder, base: str | None = None) -> Checkpoint:
    """``base`` unless given: an adapter's own, or what `skipstone train` wrote down that it started from, else the
    default model. Raises what locating a model raises.
    """
    if name == str(OURS) and not OURS.exists():
        raise ModelNotFound(f"there is no {OURS} here: run this in a checkout that has it, or name another checkpoint")
    source = finder.source(name)
    started = str(source.folder) if source.adapters else _recorded(source.folder) or DEFAULT_MODEL
    exits = exits_of(source.folder, read_json(source.folder / "config.json"), source.adapters)
    return Checkpoint(name, base or started, tuple(exits))


def _recorded(folder: Path) -> str:
    """The model of the recipe in ``training.json``, "" where there is none."""
    file = folder / "training.json"
    recipe = read_json(file).get("recipe") if file.is_file() else None
    model = recipe.get("model") if isinstance(recipe, dict) else None
    return model if isinstance(model, str) else ""
