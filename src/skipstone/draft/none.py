"""Plain decoding: the honest baseline, in the same loop."""

from __future__ import annotations

from dataclasses import dataclass

from ..drafting import DraftState
from ..network import Network
from ..request import Request
from ..telemetry import StepRecord
from ..tree import Draft


class NoDrafter:
    """Plain decoding: proposes nothing, so that every verification yields one token."""

    @dataclass(frozen=True)
    class Options:
        """No options."""

    def __init__(self, options: Options, network: Network) -> None:
        pass

    def admit(self, row: int, request: Request) -> None:
        pass

    def release(self, row: int) -> None:
        pass

    def propose(self, state: DraftState) -> Draft:
        return state.nothing()

    def observe(self, record: StepRecord) -> None:
        pass
