"""Verified tokens run once more, all at once, under a plan that might draft them."""

from __future__ import annotations

import torch
from torch import Tensor

from ..cache import Placement
from ..drafting import DraftState
from ..network import for_once
from ..plan import LayerPlan
from ..tree import NO_PARENT, Topology
from .window import Window


def replay(state: DraftState, window: Window, plan: LayerPlan) -> int:
    """How many positions of ``window`` the plan would have drafted as the target chose (SWIFT's matchness, counted).

    One run over scratch: each position sees the *target's* keys and values of the text before it, as the first token
    of a draft does, so this is the acceptance at depth 1. The text's own noise is added; penalties are not.
    """
    hidden = run(state, window, plan)
    said = state.samplers[window.place].said(for_once(state.network).logits(hidden)[0], window.positions)
    return sum(a == b for a, b in zip(said, window.wanted, strict=True))


def run(state: DraftState, window: Window, plan: LayerPlan) -> Tensor:
    """Hidden states [1, N, H] of the window's positions."""
    x = torch.tensor([window.inputs], device=state.network.device)
    hidden = for_once(state.network).run(x, placed(state, window), state.cache, plan).hidden
    leave_finite(state, window, hidden)
    return hidden


def leave_finite(state: DraftState, window: Window, hidden: Tensor) -> None:
    """Overwrite the row's scratch where an untried plan made numbers in it that are not finite.

    They would reach whoever reads that far, masked or not: a masked slot has weight 0, and 0 x NaN is NaN. Keys and
    values that are not finite show in the hidden states [1, N, H] of the nodes they belong to.
    """
    if not bool(hidden.isfinite().all()):
        state.cache.clear(window.row)


def placed(state: DraftState, window: Window) -> Placement:
    """N roots, each with as much of the committed text before it as it had when it was new."""
    roots = Topology((NO_PARENT,) * len(window))
    return state.cache.place(roots, [window.row], prefix=torch.tensor([list(window.positions)]))
