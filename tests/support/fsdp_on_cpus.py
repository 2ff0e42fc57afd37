"""FSDP over gloo processes, which accelerate keeps to GPUs: its state is told that these may, all else is its own."""

from __future__ import annotations

from typing import Any

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType


def allow_fsdp_on_cpus() -> None:
    original = AcceleratorState.__init__

    def init(self: Any, *args: Any, fsdp_plugin: Any = None, **kwargs: Any) -> None:
        original(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if fsdp_plugin is not None and self.distributed_type == DistributedType.MULTI_CPU:
            self.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP
            self.fsdp_plugin = fsdp_plugin

    AcceleratorState.__init__ = init
