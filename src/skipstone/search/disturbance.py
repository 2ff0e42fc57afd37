"""How much each sublayer does to the text: a first guess at which ones a draft would miss."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ..drafting import DraftState
from ..network import for_once
from ..plan import LayerPlan
from .replay import leave_finite, placed
from .sublayer import Sublayer
from .window import Window


def disturbances(state: DraftState, window: Window, plan: LayerPlan) -> dict[Sublayer, float]:
    """1 - cos(before, after) for the sublayers that ``plan`` runs between the first layer and the last, mean over the
    window; 0: it does nothing.

    One run of the plan with all layers tapped, and each layer's attention once more for the stream between the two.
    """
    run = for_once(state.network).run
    place = placed(state, window)
    x = torch.tensor([window.inputs], device=state.network.device)
    whole = run(x, place, state.cache, plan, range(1, plan.stop))
    leave_finite(state, window, whole.hidden)
    streams, seen = whole.taps, whole.hidden.new_zeros(())
    found: dict[Sublayer, float] = {}
    for layer in range(1, plan.stop - 1):
        before, after = streams[layer], streams[layer + 1]
        if plan.runs_attn(layer) and plan.runs_mlp(layer):
            only = LayerPlan(layer, layer + 1, skip_mlp=frozenset([layer]))
            between = run(before, place, state.cache, only).hidden
            seen = seen + between.sum()
            found[Sublayer(layer, "attn")] = _turn(before, between)
            found[Sublayer(layer, "mlp")] = _turn(between, after)
        elif plan.runs_attn(layer) or plan.runs_mlp(layer):
            found[Sublayer(layer, "attn" if plan.runs_attn(layer) else "mlp")] = _turn(before, after)
    leave_finite(state, window, seen)
    return found


def _turn(before: Tensor, after: Tensor) -> float:
    """[1, N, H] twice. Direction is what counts: every reader of the stream normalises its length."""
    turn = 1 - F.cosine_similarity(before.float(), after.float(), dim=-1).mean()
    return max(float(turn), 0.0) if bool(turn.isfinite()) else math.inf
