"""Whether a layer is one that fused blocks can stand for, and its parts if so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..kernels.linear import Linear
from .fused_block import FusedAttention, FusedBlock, FusedMlp, Shape
from .network import HFNetwork
from .norms import Norm, norm_of
from .quantised import own_modules
from .wiring import Wiring

# Read and tested: a probe cannot tell what sets in late, as soft caps on large scores do, so the type must be known.
_TYPES = ("llama", "mistral", "qwen2", "qwen3", "smollm3", "granite")
_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_MLP = ("gate_proj", "up_proj", "down_proj")

Merge = Callable[[Sequence[nn.Linear]], Linear]  # several layers over the same input become one


def why_not(network: HFNetwork) -> str:
    """Why fused blocks cannot stand for the layers of ``network``; empty where they can."""
    if why := own_modules(network.model):
        return why
    if network.config.model_type not in _TYPES or network.wiring != Wiring() or network.alibi is not None:
        return f"layers of type {network.config.model_type} are not fused"
    if not all(_plain(layer) for layer in network.layers):
        return "its layers have parts of their own kind"
    if len({_shape(layer) for layer in network.layers}) > 1:
        return "its layers differ in their heads"
    return shared_weights(network)


def shared_weights(network: HFNetwork) -> str:
    """Says so where layers share weights: what is merged or packed for one would be taken from the other."""
    weights = [weight for layer in network.layers for weight in layer.parameters()]
    return "its layers share weights" if len({id(weight) for weight in weights}) < len(weights) else ""


def _shape(layer: Any) -> Shape:
    attn = layer.self_attn
    return Shape(attn.q_proj.out_features // attn.head_dim, attn.k_proj.out_features // attn.head_dim, attn.head_dim)


def _plain(layer: Any) -> bool:
    parts = [getattr(layer.self_attn, name, None) for name in _ATTENTION]
    parts += [getattr(layer.mlp, name, None) for name in _MLP]
    return all(type(part) is nn.Linear for part in parts)


def fused_blocks(network: HFNetwork, merge: Merge) -> list[FusedBlock]:
    """A fused block for each layer; ``merge`` makes its linear layers, a layer of the model at a time."""
    return [_block(network, index, merge) for index in range(network.num_layers)]


def _block(network: HFNetwork, index: int, merge: Merge) -> FusedBlock:
    layer = network.layers[index]
    mlp = layer.mlp
    gate_up, down = merge([mlp.gate_proj, mlp.up_proj]), merge([mlp.down_proj])
    return FusedBlock(
        _attention(network, index, merge),
        FusedMlp(_norm(layer.post_attention_layernorm), gate_up, down, _activation(mlp.act_fn)),
        network.blocks[index].scale,
    )


def _attention(network: HFNetwork, index: int, merge: Merge) -> FusedAttention:
    layer = network.layers[index]
    attn = layer.self_attn
    rotated = bool(getattr(attn, "use_rope", True))
    return FusedAttention(
        layer=index,
        norm=_norm(layer.input_layernorm),
        qkv=merge([attn.q_proj, attn.k_proj, attn.v_proj]),
        out=merge([attn.o_proj]),
        q_norm=_optional_norm(attn, "q_norm"),
        k_norm=_optional_norm(attn, "k_norm"),
        shape=_shape(layer),
        scale=float(attn.scaling),
        window=network.windows[index],
        kind=network.kinds[index] if rotated else None,
    )


def _activation(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """SiLU without the ceremony of a module."""
    return functional.silu if type(module).__name__ in ("SiLU", "SiLUActivation") else module


def _norm(module: Any) -> Norm:
    eps = getattr(module, "variance_epsilon", None)
    return norm_of(module.weight.data, float(module.eps if eps is None else eps))


def _optional_norm(attention: Any, name: str) -> Norm | None:
    module = getattr(attention, name, None)
    return None if module is None else _norm(module)


def joined(linears: Sequence[nn.Linear]) -> tuple[Tensor, Tensor | None]:
    """Weights [sum of out, in] and bias of several layers over the same input, in one piece."""
    weight = torch.cat([linear.weight.data for linear in linears]) if len(linears) > 1 else linears[0].weight.data
    biases = [linear.bias for linear in linears]
    if all(bias is None for bias in biases):
        return weight, None
    parts = [weight.new_zeros(n.out_features) if n.bias is None else n.bias.data for n in linears]
    return weight, torch.cat(parts)
