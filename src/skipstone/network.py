"""What the engine and the drafters need of a model: run some layers over some nodes, turn hidden states to logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from .cache import KVCache, Placement
from .plan import LayerPlan


@dataclass(frozen=True)
class Run:
    """``hidden`` [B, N, H]: the residual stream after layer ``plan.stop - 1``, before the final norm.

    ``taps[l]`` [B, N, H]: the residual stream that enters layer l (so tap E is what an exit at E sees).
    """

    hidden: Tensor
    taps: Mapping[int, Tensor] = field(default_factory=dict)


class Network(Protocol):
    """A decoder under layer plans. Stateless: everything a run leaves behind is in the cache it was given."""

    @property
    def num_layers(self) -> int: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def context(self) -> int:
        """The most tokens a text may have."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """Of hidden states, logits, keys and values."""
        ...

    @property
    def device(self) -> torch.device: ...

    def new_cache(self, rows: int, capacity: int) -> KVCache:
        """An empty cache for ``rows`` texts of up to ``capacity`` slots each, scratch included."""
        ...

    def run(self, x: Tensor, placement: Placement, cache: KVCache, plan: LayerPlan, taps: Sequence[int] = ()) -> Run:
        """Run the plan over placed nodes, writing keys and values of the attentions that run into their slots.

        ``x``: tokens [B, N] int64 where ``plan.start`` is 0, else hidden states [B, N, H] that entered layer
        ``plan.start``. ``taps`` names layers whose input to keep. The result of a row depends on no other row.
        """
        ...

    def logits(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
        """Final norm and LM head on ``hidden`` [B, N, H]: [B, N, V], or [B, N, S] for the token ids ``subset`` [S]."""
        ...

    def narrow_head(self, tokens: Tensor) -> Callable[[Tensor], Tensor]:
        """``logits`` for the token ids ``tokens`` [S] alone, laid out for many calls: [B, N, S] from [B, N, H]."""
        ...


def for_once(network: Network) -> Network:
    """The network for runs that may not come again.

    One that prepares for those that do (``kernels.cuda_graphs``) has the same without that as ``for_once``.
    """
    plain: Network | None = getattr(network, "for_once", None)
    return network if plain is None else plain


def wrapped(network: Network) -> Iterator[Network]:
    """``network`` and those it wraps, each the ``inner`` of the one before."""
    each: Network | None = network
    while each is not None:
        yield each
        each = getattr(each, "inner", None)


def loss_of(network: Network) -> str:
    """How texts of ``network`` are not those of the model that was loaded, in a few words; "" where they are.

    A network that is lossy says so in ``lossy``; one that wraps it as ``inner`` need not say anything.
    """
    return next((said for each in wrapped(network) if (said := getattr(each, "lossy", ""))), "")


def chains_only(network: Network) -> bool:
    """Whether siblings would cost what the network is there for."""
    return any(getattr(each, "chains_only", False) for each in wrapped(network))
