"""The parts there are, in the order in which they run."""

from __future__ import annotations

from ..efficiency.part import Part
from . import assistant, decoding, dynamic, exits, taps
from .trial import Trial


def parts(trial: Trial) -> list[Part]:
    return [maker(trial) for maker in (exits.part, decoding.part, dynamic.part, taps.part, assistant.part)]
