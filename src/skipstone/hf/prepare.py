"""From a model as transformers loads it to the fastest network that is proven to be the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import torch

from ..errors import ParityError, UsageError, did_you_mean
from ..kernels.linear import WeightKind
from ..kernels.probe import Kernel, kernel_for
from . import memory
from .computing import computing
from .fit import fitted
from .fused import FusedNetwork
from .fusible import shared_weights, why_not
from .network import HFNetwork
from .packing import all_survive_half, fuse, fuse_lightly, largest_weight, pack_modules
from .quantised import own_modules
from .selfcheck import Probe, tolerance, worst_gap

DecoderNetwork = HFNetwork | FusedNetwork
_PACKED = "skipstone_packed"  # an attribute of models whose weights were taken


@dataclass(frozen=True)
class Prepared:
    """``gap``: the largest difference found to the model's own logits. ``notes``: what a user would not expect."""

    network: DecoderNetwork
    gap: float
    notes: list[str]


@computing
def prepare(model: Any, weights: str = "auto") -> Prepared:
    """Check ``model``, pack its weights and fuse its blocks where that is proven to change nothing.

    ``weights``: stock leaves them as they are; float32, float16 and bfloat16 pack them for the CPU, which takes them
    out of ``model``; auto is float16 where it holds every number, else float32. Raises what ``fit`` raises, UsageError
    for weights that cannot be had.
    """
    check_weights(weights)
    if getattr(model, _PACKED, False):
        raise UsageError(
            "the model's weights were packed before, and taken out of it: load it anew (weights stock leave it whole)"
        )
    found = fitted(model)
    network, probes = found.network, found.probes
    choice = _choice(network, weights)
    kernel, notes = choice.kernel, choice.notes
    fused = network.dtype != torch.float64 and _fits(network, probes)
    if not fused and kernel.kind == "stock":
        return Prepared(network, found.gap, notes)
    fast = _packed(network, kernel, fused)
    setattr(model, _PACKED, kernel.kind != "stock")
    if kernel.kind != "stock":
        memory.give_back()
        memory.use_large_pages()
    return Prepared(fast, _checked(fast, probes, choice), notes)


def check_weights(weights: str) -> None:
    """Raises UsageError for a kind of weights there is not."""
    known = ("auto", *get_args(WeightKind))
    if not isinstance(weights, str) or weights not in known:
        raise UsageError(f'weights "{weights}" are not known: {did_you_mean(str(weights), known)}')


@dataclass(frozen=True)
class Choice:
    """The kernel to pack with, what to say about it, and how far the logits may move, relative to the largest."""

    kernel: Kernel
    limit: float
    notes: list[str] = field(default_factory=list)


def _choice(network: HFNetwork, weights: str) -> Choice:
    stock = Choice(kernel_for("stock"), tolerance(network.dtype))
    if weights == "stock":
        return stock
    if why := _unpackable(network):
        if weights != "auto":
            raise UsageError(f"weights {weights} cannot be had: {why}; use weights auto, or dtype float32 on a CPU")
        return stock
    exact = weights in ("auto", "float16") and all_survive_half(network)
    kind: Any = weights if weights != "auto" else "float16" if exact else "float32"
    kernel = kernel_for(kind)
    notes = [] if not kernel.reason else [f"weights are not packed as {kind}: {kernel.reason}"]
    if kernel.reason and weights == "auto" and kind == "float16":
        kernel = kernel_for("float32")
    if kernel.kind == "bfloat16":
        notes.append("weights bfloat16: weights and the numbers that meet them are rounded to 8 bits")
    elif kernel.kind == "float16" and not exact:
        _check_range(network)
        notes.append("weights float16: not every weight survives, so this is another model, by a little")
    rounded = kernel.kind == "bfloat16" or (kernel.kind == "float16" and not exact)
    return Choice(kernel, tolerance(torch.bfloat16) if rounded else tolerance(network.dtype), notes)


def _check_range(network: HFNetwork) -> None:
    largest = largest_weight(network)
    if largest > torch.finfo(torch.float16).max:
        raise UsageError(f"weights float16 cannot hold weights up to {largest:.3g}: use weights auto or float32")


def _unpackable(network: HFNetwork) -> str:
    if network.device.type != "cpu":
        return f"packing is for the CPU, the model is on {network.device}"
    if network.dtype != torch.float32:
        return f"packing is for models in float32, this one is in {str(network.dtype).removeprefix('torch.')}"
    return own_modules(network.model) or shared_weights(network)


def _fits(network: HFNetwork, probes: Sequence[Probe]) -> bool:
    """Whether fused blocks would give the model's own logits, tried on its weights where they lie."""
    return not why_not(network) and worst_gap(fuse_lightly(network), probes) <= tolerance(network.dtype)


def _packed(network: HFNetwork, kernel: Kernel, fused: bool) -> DecoderNetwork:
    if fused:
        return fuse(network, kernel)
    pack_modules(network, kernel)
    return network


def _checked(network: DecoderNetwork, probes: Sequence[Probe], choice: Choice) -> float:
    gap = worst_gap(network, probes)
    if not gap <= choice.limit:
        raise ParityError(
            f"with {choice.kernel.kind} weights our forward pass differs from the model's own by {gap:.1e} (limit "
            f"{choice.limit:.0e}): use weights stock, and please report it"
        )
    return gap
