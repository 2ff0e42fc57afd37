"""What is remembered of a transformers model between calls: nothing that holds the model, or one of its modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from ..calibrate import measure
from ..cost import CostModel
from ..drafting import Drafter
from ..hf.network import HFNetwork
from ..hf.wiring import Wiring
from ..plugins import make_drafter
from ..text.memories import Memories


@dataclass
class Remembered:
    """``memories``: what searching drafters found out. ``costs`` of steps are measured once one of them searches."""

    wiring: Wiring
    finish: bool
    windows: Sequence[int | None]  # of each layer
    memories: Memories = field(default_factory=Memories)
    costs: CostModel | None = None
    _measuring: Any = field(default_factory=Lock)

    def drafter(self, spec: str, network: HFNetwork) -> Drafter:
        """A drafter by name, which goes on from what earlier ones found."""
        return self.memories.give(spec, make_drafter(spec, network))

    def costs_for(self, drafter: Drafter, network: HFNetwork) -> CostModel | None:
        """None for drafters that do not search: the others need not wait two seconds."""
        searches = getattr(drafter, "memory", None) is not None and getattr(drafter, "uses_costs", False)
        with self._measuring:
            if searches and self.costs is None:
                self.costs = CostModel(measure(network))
        return self.costs
