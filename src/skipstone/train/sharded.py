"""Weights that FSDP has spread over processes: norm and head in one piece for a loss, the model in one piece to save.

FSDP puts a module's weights together while its forward pass runs. The early-exit loss uses norm and head outside of the
model's, many times over, and makes its own gradients: it needs their weights as plain tensors for as long as it runs,
and the modules without the hooks by which FSDP would take part in every call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from ..hf.head import Head

_PARTS = ("norm", "project", "linear")


class Unhooked(nn.Module):
    """``module`` run by its forward method alone."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.out_features = getattr(module, "out_features", None)

    def forward(self, hidden: Tensor) -> Tensor:
        output: Tensor = self.module.forward(hidden)
        return output


def unhooked(head: Head) -> Head:
    """The same head; where FSDP manages it, to be used while ``in_one_piece``."""
    hooked = [name for name in _PARTS if isinstance(getattr(head, name), FSDPModule)]
    return replace(head, **{name: Unhooked(getattr(head, name)) for name in hooked})


@contextmanager
def in_one_piece(model: Any, head: Head, *, release: bool = False) -> Iterator[None]:
    """The weights of ``head`` are plain tensors, on each process all of them; ``model`` is what FSDP has been given.

    They stay so until the backward pass, in which FSDP reduces the gradients they were given, or until the end with
    ``release``. All processes come here together. Without FSDP nothing happens.
    """
    owners = list(_owners(model, {id(part) for part in _modules(head)}))
    for owner in owners:
        owner.unshard()
    yield
    if release:
        for owner in owners:
            owner.reshard()


def everywhere(fine: bool, device: torch.device) -> bool:
    """Whether it is so on every process: what one of them raises, all must, or the others wait for it."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return fine
    flag = torch.tensor(int(fine), device=device)
    torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MIN)
    return bool(flag)


def alike(value: object) -> bool:
    """Whether every process says the same."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return True
    said: list[object] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(said, value)
    return all(each == said[0] for each in said)


def finite(tensors: Iterable[Tensor], device: torch.device) -> bool:
    """On every process, whichever part of the tensors it has. ``device`` is what processes talk through."""
    parts = (tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors)
    return everywhere(all(bool(torch.isfinite(part).all()) for part in parts), device)


def _modules(head: Head) -> Iterator[nn.Module]:
    for name in _PARTS:
        part = getattr(head, name)
        if isinstance(part, nn.Module):
            yield part.module if isinstance(part, Unhooked) else part


def _owners(model: nn.Module, parts: set[int]) -> Iterator[Any]:
    """A module has its weights spread by itself, or by one that it lies in."""
    for module in model.modules():
        if isinstance(module, FSDPModule) and any(id(inner) in parts for inner in _inside(module)):
            yield module


def _inside(module: Any) -> Iterator[nn.Module]:
    inner: Iterator[nn.Module] = module.modules()
    return inner


def fill_states(optimizer: Any) -> None:
    """Weights of layers that every sample has left out so far get the state of a first step: zeros, as Adam begins.

    A checkpoint in parts is only read again where each weight has a state.
    """
    known: dict[str, Tensor] = next((state for state in optimizer.state.values() if state), {})
    for weight in (weight for group in optimizer.param_groups for weight in group["params"]):
        if not optimizer.state.get(weight):
            optimizer.state[weight] = {
                name: torch.zeros_like(value if value.dim() == 0 else weight.detach()) for name, value in known.items()
            }


def gathered(accelerator: Any, model: Any) -> Mapping[str, Tensor]:
    """All weights of ``model`` by name, on the CPU of the first process; nothing on the others, which must come too."""
    state: Mapping[str, Tensor] = accelerator.get_state_dict(model)
    return state
