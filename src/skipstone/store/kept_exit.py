"""An exit preset as it is kept: what is true of it on every machine, and apart from that how fast it was on each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from importlib.metadata import version
from typing import Any

from ..errors import PlanError
from ..search.preset import ExitPreset
from .entry import by_name, mapping, number, share, text, whole


@dataclass(frozen=True)
class KeptExit:
    """``preset`` says nothing of speed: that lies in ``speeds``, over plain decoding, by machine."""

    preset: ExitPreset
    date: str
    version: str
    speeds: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, preset: ExitPreset, machine: str, before: KeptExit | None = None) -> KeptExit:
        """``before``, what was kept until now, was as fast elsewhere as it says where the draft is the same."""
        speeds = {} if before is None or not _same_draft(before.preset, preset) else dict(before.speeds)
        if preset.speed is not None:
            speeds[machine] = preset.speed
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return cls(replace(preset, speed=None), now, version("skipstone"), speeds)

    def on(self, machine: str) -> ExitPreset:
        """The preset with its speed on one machine, where it was measured there."""
        return replace(self.preset, speed=self.speeds.get(machine))

    def to_json(self) -> dict[str, Any]:
        preset = self.preset
        draft = {"layer": preset.layer, "depth": preset.depth, "width": preset.width, "head": preset.head}
        figures = {"agreement": preset.agreement, "tokens": preset.tokens}
        return {**draft, **figures, "date": self.date, "version": self.version, "speeds": dict(self.speeds)}

    @classmethod
    def from_json(cls, entry: Any, layers: int) -> KeptExit:
        """Raises UsageError for what is no preset, PlanError for an exit that the model has not."""
        given = mapping(entry, "an exit preset")
        draft = (whole(given, "layer"), whole(given, "depth"), whole(given, "width"), text(given, "head"))
        preset = ExitPreset(*draft, share(given, "agreement"), whole(given, "tokens"))
        if preset.layer >= layers:
            raise PlanError(
                f"it exits after layer {preset.layer}, but the model has {layers}: 1 to {layers - 1} can be"
            )
        speeds = by_name(given.get("speeds"), "speeds")
        return cls(preset, text(given, "date"), text(given, "version"), {name: number(speeds, name) for name in speeds})


def _same_draft(a: ExitPreset, b: ExitPreset) -> bool:
    return (a.layer, a.depth, a.width, a.head) == (b.layer, b.depth, b.width, b.head)
