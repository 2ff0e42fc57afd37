"""The LayerSkip training recipe: layer dropout, early-exit loss and curricula, each a small object on its own."""

from __future__ import annotations

from .curriculum import Curriculum, Fixed, Gradual, Rotational
from .dropout import LayerDropout
from .early_exit_loss import EarlyExitLoss, ExitLosses
from .forward import exits
from .targets import Teacher
from .weights import ExitWeights

__all__ = [
    "Curriculum",
    "EarlyExitLoss",
    "ExitLosses",
    "ExitWeights",
    "Fixed",
    "Gradual",
    "LayerDropout",
    "Rotational",
    "Teacher",
    "exits",
]
