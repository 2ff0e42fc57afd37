"""Parity at load: our pass over probe prompts against the model's own, in the dtype it was loaded in."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..cache import KVCache, Placement
from ..errors import ParityError
from ..network import Network
from ..plan import LayerPlan
from ..tree import Topology
from .computing import computing
from .network import HFNetwork

# relative to the largest logit; half precisions differ by kernel shape alone
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}


@dataclass(frozen=True)
class Probe:
    """Tokens from position ``start`` on, and the model's own logits [N, V] for them."""

    tokens: list[int]
    start: int
    logits: Tensor


def probe_tokens(network: Network, length: int = 24) -> list[int]:
    """Token ids spread over the vocabulary, no longer than the context."""
    return [(7 + 7919 * i) % network.vocab_size for i in range(min(length, network.context - 1))]


def probes_of(network: HFNetwork) -> list[Probe]:
    """What the model itself says to two texts; runs it.

    The second, shorter one lies at the far end of the context: scalings that set in late show nowhere else.
    """
    probes = [probe(network, probe_tokens(network))]
    far = probe_tokens(network, 8)
    if network.alibi is None and "position_ids" in inspect.signature(network.model.forward).parameters:
        probes.append(probe(network, far, network.context - len(far)))
    return probes


@computing
def probe(network: HFNetwork, tokens: list[int], start: int = 0) -> Probe:
    where: dict[str, Any] = {}
    if start:
        where["position_ids"] = start + torch.arange(len(tokens), device=network.device)[None]
    ids = torch.tensor([tokens], device=network.device)
    return Probe(tokens, start, network.model(input_ids=ids, use_cache=False, **where).logits[0])


def parity_gap(network: HFNetwork, tokens: list[int], start: int = 0) -> float:
    """The gap over the logits of ``tokens``, the first of which has position ``start``."""
    return probe_gap(network, probe(network, tokens, start))


@computing
def probe_gap(network: Network, probe: Probe) -> float:
    """Largest |ours - theirs| over the logits of a probe, relative to the largest |logit|.

    Ours runs the first half as prefill, then a tree whose side branch must stay unseen, resumed in the middle.
    """
    scale = probe.logits.abs().max().clamp_min(1.0)
    return float((_ours(network, probe.tokens, probe.start) - probe.logits).abs().max() / scale)


def _ours(network: Network, tokens: list[int], start: int) -> Tensor:
    cache = network.new_cache(1, len(tokens) + 1)
    cache.reset(0, len(tokens))
    half = max(len(tokens) // 2, 1)
    first = _part(network, cache, tokens[:half], Topology.chain(half), start)
    cache.commit([0], [range(half)])
    if half == len(tokens):
        return first
    chain = len(tokens) - half
    comb = Topology.comb((2, *[1] * (chain - 2))) if chain > 1 else Topology.chain(1)
    decoy = [tokens[0]] * (len(comb) - chain)
    second = _part(network, cache, [*tokens[half:], *decoy], comb, start)
    return torch.cat([first, second[:chain]])


def _part(network: Network, cache: KVCache, tokens: list[int], topology: Topology, start: int) -> Tensor:
    """Logits [N, V] of placed tokens, run in two plans that meet in the middle of the network."""
    placement = _moved(cache.place(topology, [0]), start)
    middle = network.num_layers // 2
    x = torch.tensor([tokens], device=network.device)
    if middle:
        x = network.run(x, placement, cache, LayerPlan.until(middle)).hidden
    return network.logits(network.run(x, placement, cache, LayerPlan.rest(middle, network.num_layers)).hidden)[0]


def _moved(placement: Placement, start: int) -> Placement:
    """The same nodes as part of a text that begins at position ``start``."""
    return replace(
        placement,
        positions=placement.positions + start,
        key_positions=placement.key_positions + start,
        reach=placement.reach + start,
        last=None if placement.last is None else placement.last + start,
    )


def check_parity(network: HFNetwork, probes: Sequence[Probe] | None = None) -> float:
    """Raise ParityError unless our pass gives the model's own logits within rounding; returns the gap."""
    gap = worst_gap(network, probes_of(network) if probes is None else probes)
    limit = tolerance(network.dtype)
    if not gap <= limit:
        raise ParityError(
            f"our forward pass differs from the model's own by {gap:.1e} (limit {limit:.0e}): this checkpoint of type "
            f"{network.config.model_type} cannot be decoded faithfully, or its weights are not finite; please report it"
        )
    return gap


def worst_gap(network: Network, probes: Sequence[Probe]) -> float:
    """The largest parity gap of any probe; NaN where there is one."""
    gaps = torch.tensor([probe_gap(network, probe) for probe in probes], dtype=torch.float64)
    return float(gaps.max())


def tolerance(dtype: torch.dtype) -> float:
    """How far apart two passes in ``dtype`` may be, relative to the largest logit."""
    return _TOLERANCE.get(dtype, 1e-1)
