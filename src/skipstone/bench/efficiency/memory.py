"""Memory: what a process of its own holds while it decodes with float16 weights."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from .lab import Lab
from .part import CannotMeasure, Figure, Findings, Part

_MODULE = "skipstone.bench.efficiency.memory_run"
_FACTOR, _REST_MB = 1.4, 600  # python, torch, transformers and the cache


def part() -> Part:
    meaning = "resident MB of a process that decodes with float16 weights"
    return Part("memory", (Figure("rss_mb", meaning, "≤ rss_limit_mb"),), run)


def run(lab: Lab) -> Findings:
    told = child([_MODULE, json.dumps(lab.models.where), str(lab.effort.new_tokens)], lab)
    limit = _FACTOR * told["weights_mb"] + _REST_MB
    return {
        "rss_mb": told["rss_mb"],
        "rss_limit_mb": limit,
        "float16_weights_mb": told["weights_mb"],
        "rss_peak_mb": told["peak_mb"],
        "rss_file_mb": told["file_mb"],
    }


def child(arguments: Sequence[str], lab: Lab, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """What ``python -m`` with these arguments prints last, one JSON object. Raises CannotMeasure where it does not."""
    command = [sys.executable, "-m", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=lab.effort.timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CannotMeasure(f"{arguments[0]} was not done after {error.timeout:.0f} s") from error
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise CannotMeasure(f"{arguments[0]} ended with {done.returncode}: {said}")
    told: dict[str, Any] = json.loads(lines[-1])
    return told
