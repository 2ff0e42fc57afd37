"""The nearest library, economize, on the planted exit model: fetched into a folder of its own, run in its own process.

It runs on the very torch and transformers that we do, so that only the engines differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from ...store.folders import cache_folders
from .lab import Lab
from .memory import child
from .part import CannotMeasure, Figure, Findings, Part

_PINNED = "economize==0.3.2"
_MODULE = "skipstone.bench.efficiency.economize_run"
_FETCH_S = 120


def part() -> Part:
    figure = Figure("economize_speedup", "economize's early exit / transformers generate, planted exit model")
    return Part("economize", (figure,), run)


def run(lab: Lab) -> Findings:
    """Raises CannotMeasure where rivals were not asked for, cannot be fetched or do not run."""
    if not lab.rivals:
        raise CannotMeasure("other libraries are fetched and compared only with --rivals")
    folder = cache_folders(lab.cache).root / "rivals" / _PINNED.replace("==", "-")
    if not folder.is_dir():
        if lab.models.where.get("offline"):
            raise CannotMeasure(f"{_PINNED} is not in {folder}, and --offline forbids fetching it")
        _fetch(folder)
    paths = [str(folder), *(path for path in sys.path if path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    effort = lab.effort
    order = {
        "shape": asdict(effort.shape),
        "exit_layer": effort.exit_layer,
        "depth": effort.depth,
        "tokens": effort.cycles * (effort.depth + 1),
        "rounds": effort.rounds.most,
        "budget_s": effort.timeout_s / 2,
    }
    told = child([_MODULE, json.dumps(order)], lab, environment)
    return {"economize_speedup": told.pop("speedup"), "economize": told, "economize_version": _PINNED}


def _fetch(folder: Path) -> None:
    """The whole folder or none of it; without what it depends on, which is there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as unfinished:
        _install(Path(unfinished) / folder.name)
        (Path(unfinished) / folder.name).rename(folder)


def _install(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    try:
        done = subprocess.run(
            [*pip, "--target", str(folder), _PINNED], capture_output=True, text=True, timeout=_FETCH_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CannotMeasure(f"{_PINNED} was not fetched within {_FETCH_S} s") from error
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise CannotMeasure(f"{_PINNED} cannot be fetched: {said}")
