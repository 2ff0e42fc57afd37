"""Where things lie on disk: downloads, models, measured costs and plans under one cache folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import platformdirs


def default_root() -> Path:
    """The user's cache folder for Skipstone, where the operating system wants it."""
    return Path(platformdirs.user_cache_dir("skipstone"))


@dataclass(frozen=True, slots=True)
class Folders:
    """The layout below one cache root. Nothing is created by asking."""

    root: Path

    @property
    def downloads(self) -> Path:
        """Unfinished work: fetched and extracted files, removed once a model is installed."""
        return self.root / "downloads"

    @property
    def models(self) -> Path:
        """Installed model folders, one per name."""
        return self.root / "models"

    @property
    def costs(self) -> Path:
        """Measured costs, a file for each combination of model, machine and settings."""
        return self.root / "costs"

    @property
    def plans(self) -> Path:
        """Plans found, a file for each model."""
        return self.root / "plans"

    def model(self, name: str) -> Path:
        return self.models / name


def cache_folders(root: Path | None = None) -> Folders:
    """The layout below `root`, or below the user's cache folder."""
    return Folders(default_root() if root is None else root.expanduser().absolute())
