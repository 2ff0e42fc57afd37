"""The drafter ``skip`` with a plan for good, whoever found it."""

from __future__ import annotations

from collections.abc import Iterable

from ...draft.none import NoDrafter
from ...draft.skip import SkipDrafter
from ...drafting import Drafter
from ...network import Network
from ...plan import LayerPlan


def drafter_of(plan: LayerPlan | None, network: Network, depth: int = 0) -> Drafter:
    """``depth`` tokens a draft, 0: skip's own default. No drafts where there is no plan, or one without a gap."""
    if plan is None or not (plan.skip_attn or plan.skip_mlp):
        return NoDrafter(NoDrafter.Options(), network)
    options = SkipDrafter.Options(attn=_written(plan.skip_attn), mlp=_written(plan.skip_mlp), depth=depth)
    return SkipDrafter(options, network)


def _written(layers: Iterable[int]) -> str:
    return "+".join(map(str, sorted(layers)))
