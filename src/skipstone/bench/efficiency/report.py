"""Running the parts: whatever one of them does, the others' figures stay."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...store.costs import cpu_name
from ..timing import Estimate
from .lab import Lab
from .part import Absent, Part, why


@dataclass
class Report:
    """``values`` by key, figures and details alike; what could not be had is in ``absent`` with its reason."""

    facts: dict[str, Any]
    values: dict[str, Any] = field(default_factory=dict)
    intervals: dict[str, list[float]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def put(self, key: str, value: Any) -> None:
        if isinstance(value, Absent):
            self.values[key], self.absent[key] = None, value.reason
        elif isinstance(value, Estimate):
            self.values[key], self.intervals[key] = value.value, value.interval
        else:
            self.values[key] = value

    def to_json(self) -> dict[str, Any]:
        return {**self.values, "intervals": self.intervals, "absent": self.absent, **self.facts}


def run_parts(chosen: Sequence[Part], known: Sequence[Part], lab: Lab, report: Report | None = None) -> Report:
    """Figures of parts that were not chosen are absent, too, so that every report has every key.

    An interrupt comes through; ``report`` then holds what was measured before it.
    """
    report = report or Report(facts(lab))
    for part in known:
        if part not in chosen:
            _miss(part, "not asked for", report)
    try:
        for part in chosen:
            _run(part, lab, report)
    finally:
        for part in chosen:
            _miss(part, "interrupted", report)
    return report


def _run(part: Part, lab: Lab, report: Report) -> None:
    lab.tell(f"{part.name} …")
    began = lab.clock()
    try:
        findings = part.run(lab)
    except Exception as error:  # the next part may well work
        _miss(part, why(error), report)
        lab.tell(f"  absent: {why(error)}")
        return
    for key, value in findings.items():
        report.put(key, value)
    _miss(part, "the part did not measure it", report)
    lab.tell(f"  done in {lab.clock() - began:.0f} s")


def _miss(part: Part, reason: str, report: Report) -> None:
    for key in part.keys:
        if key not in report.values:
            report.put(key, Absent(reason))


def facts(lab: Lab) -> dict[str, Any]:
    """What stands beside every figure."""
    import torch
    import transformers

    return {
        "model": lab.models.name,
        "cpu": cpu_name(),
        "threads": torch.get_num_threads(),
        "dtype": "float32",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "quick": lab.effort.quick_only,
    }
