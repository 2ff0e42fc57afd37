"""Early exit as a way to decode: the first E layers, final norm and LM head there. Fast and lossy.

What comes out is the text of a smaller model, not of the one that was loaded. Drafters, sampling and batches work on it
as on any network, and its text depends on no drafter either. The drafter ``exit`` is the lossless use of the layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from .cache import KVCache, Placement
from .errors import PlanError, UsageError
from .network import Network, Run, loss_of
from .plan import LayerPlan


class EarlyExitNetwork:
    """The first ``layer`` layers of ``network`` (also ``inner``) as a whole model; see ``Network`` for the contract.

    ``lossy`` labels every text and figure of it. ``trained`` are the exits the model was trained for, as far as that is
    recorded; ``notes`` tells them. Raises PlanError for a layer that is none of 1 .. L-1.
    """

    def __init__(self, network: Network, layer: int, trained: Sequence[int] = ()) -> None:
        check_early_exit(layer)
        if layer >= network.num_layers:
            raise PlanError(_beyond(layer, network.num_layers, trained))
        self.inner = network
        self.num_layers = layer
        self.vocab_size = network.vocab_size
        self.context = network.context
        self.dtype = network.dtype
        self.device = network.device
        before = loss_of(network)
        self.lossy = f"early exit at layer {layer} of {network.num_layers}" + (f" ({before})" if before else "")
        self.notes = [f"exit {layer} of {network.num_layers} layers; {_told(trained)}"]
        example = network.new_cache(1, 1)
        self._shapes = example.shapes[:layer]
        self._spare = example.keys[0].shape[2] - 1  # slots the wrapped network wants behind the last one

    def new_cache(self, rows: int, capacity: int) -> KVCache:
        """For the layers that run only."""
        cache = KVCache(self._shapes, rows, capacity + self._spare, dtype=self.dtype, device=self.device)
        cache.capacity = capacity
        return cache

    def run(self, x: Tensor, placement: Placement, cache: KVCache, plan: LayerPlan, taps: Sequence[int] = ()) -> Run:
        plan.check(self.num_layers)
        return self.inner.run(x, placement, cache, plan, taps)

    def logits(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
        return self.inner.logits(hidden, subset)

    def narrow_head(self, tokens: Tensor) -> Callable[[Tensor], Tensor]:
        return self.inner.narrow_head(tokens)


def check_early_exit(layer: int) -> None:
    """Raise UsageError for what is no layer of any model, PlanError for one that no model could end at."""
    if not isinstance(layer, int) or isinstance(layer, bool):
        raise UsageError(f"early_exit={layer!r} is not a whole number of layers")
    if layer < 1:
        raise PlanError(f"early_exit={layer} runs no layer: use 1 or more, and fewer than the model has")


def _beyond(layer: int, layers: int, trained: Sequence[int]) -> str:
    if layers < 2:
        return f"early_exit={layer}: a model of {layers} layer has no earlier exit: leave it out"
    use = f"use 1 to {layers - 1} ({_told(trained)}), or leave it out for the whole model"
    return f"early_exit={layer} is no early exit: the model has {layers} layers, {use}"


def _told(trained: Sequence[int]) -> str:
    return f"trained exits: {', '.join(map(str, trained))}" if trained else "no trained exits are recorded"
