"""Time, bytes and limits."""

from __future__ import annotations

import signal
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import torch

from skipstone.plan import LayerPlan


class OutOfTime(BaseException):
    """Not an Exception: nothing on the way may take it for a failure of its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the block once ``seconds`` are over."""

    def stop(*_: object) -> None:
        raise OutOfTime

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(work: Callable[[], object], device: torch.device, repeats: int, calls: int = 1) -> float:
    """The median over ``repeats`` of the time of one call, ``calls`` timed together."""
    times = []
    for _ in range(repeats):
        wait(device)
        began = perf_counter()
        for _ in range(calls):
            work()
        wait(device)
        times.append((perf_counter() - began) / calls)
    return statistics.median(times)


def bandwidth(device: torch.device) -> float:
    """Bytes a second of a copy on the device, read and written."""
    size = 4 << 30 if device.type == "cuda" else 64 << 20
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    return 2 * size / seconds_of(lambda: target.copy_(source), device, repeats=7)


def plan_bytes(model: Any, plan: LayerPlan) -> int:
    """Bytes of the weights that one run of a Llama reads under ``plan``, embedding and head apart."""
    total = 0
    for index, layer in enumerate(model.model.layers):
        attn, mlp = _bytes(layer.self_attn, layer.input_layernorm), _bytes(layer.mlp, layer.post_attention_layernorm)
        total += attn * plan.runs_attn(index) + mlp * plan.runs_mlp(index)
    return total


def head_bytes(model: Any) -> int:
    return _bytes(model.get_output_embeddings(), model.model.norm)


def _bytes(*modules: Any) -> int:
    return sum(p.numel() * p.element_size() for module in modules for p in module.parameters())
