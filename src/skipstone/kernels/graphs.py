"""Recorded runs and logits: fixed buffers in, a replay, copies out."""

from __future__ import annotations

import torch
from torch import Tensor

from ..cache import Placement
from ..network import Network, Run
from .graph_key import RunKey
from .recorder import Function, Outputs, Recorder
from .slot_cache import SlotCache


class RunInputs:
    """The buffers a run's graph reads its input from."""

    def __init__(self, key: RunKey, x: Tensor, device: torch.device) -> None:
        B, N = key.rows, key.nodes
        self.key = key
        self.x = torch.zeros(x.shape, dtype=x.dtype, device=device)
        self.rows = torch.zeros(B, dtype=torch.int64, device=device)
        self.span = None if key.first_row is None else slice(key.first_row, key.first_row + B)
        self._rows_held: tuple[int, ...] = ()
        numbers = torch.zeros(3, B, N, dtype=torch.int64, device=device)
        self.placement = Placement(
            rows=(),  # no host numbers: whoever reads them fails at recording instead of finding old ones in a replay
            first=(),
            slots=numbers[0],
            positions=numbers[1],
            reach=numbers[2],
            visible=torch.zeros(B, N, key.bucket, dtype=torch.bool, device=device),
            key_positions=torch.zeros(B, key.bucket, dtype=torch.int64, device=device),
            extent=key.bucket,
        )

    def fill(self, x: Tensor, placement: Placement) -> None:
        """Copy one run's input in; slots from its extent to the bucket's end are seen by nobody."""
        static, extent = self.placement, placement.extent
        self.x.copy_(x)
        static.slots.copy_(placement.slots)
        static.positions.copy_(placement.positions)
        static.reach.copy_(placement.reach)
        static.visible[..., :extent] = placement.visible
        static.visible[..., extent:] = False
        static.key_positions[:, :extent] = placement.key_positions
        if placement.rows != self._rows_held:
            self.rows.copy_(torch.tensor(placement.rows))
            self._rows_held = placement.rows


class RunGraph:
    """One kind of run, recorded."""

    def __init__(self, inputs: RunInputs, network: Network, recorder: Recorder, cache: SlotCache) -> None:
        self.inputs = inputs
        self.taps: tuple[int, ...] = ()
        self.replay = recorder.record(self._function(network, cache))

    def _function(self, network: Network, cache: SlotCache) -> Function:
        inputs, key = self.inputs, self.inputs.key

        def function() -> Outputs:
            run = network.run(inputs.x, inputs.placement, cache, key.plan, key.taps)
            self.taps = tuple(run.taps)
            return (run.hidden, *run.taps.values())

        return function

    def __call__(self, x: Tensor, placement: Placement) -> Run:
        self.inputs.fill(x, placement)
        hidden, *tapped = [output.clone() for output in self.replay()]  # the next replay overwrites its outputs
        return Run(hidden, dict(zip(self.taps, tapped, strict=True)))


class LogitsGraph:
    """Norm and LM head over one shape of hidden states, recorded."""

    def __init__(self, network: Network, recorder: Recorder, hidden: Tensor, subset: Tensor | None) -> None:
        self.hidden = torch.zeros(hidden.shape, dtype=hidden.dtype, device=hidden.device)
        self.hidden.copy_(hidden)
        static = self.hidden
        self.replay = recorder.record(lambda: (network.logits(static, subset),))

    def __call__(self, hidden: Tensor) -> Tensor:
        self.hidden.copy_(hidden)
        (logits,) = self.replay()
        return logits.clone()
