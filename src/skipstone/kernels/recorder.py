"""Recording a function over fixed buffers, to be replayed as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import UsageError

Outputs = tuple[Tensor, ...]
Function = Callable[[], Outputs]


class Recorder(Protocol):
    def record(self, function: Function) -> Function:
        """A replay of ``function``: does to the same buffers what it did, and returns the same output tensors each
        time, overwritten. ``function`` runs once or more meanwhile; the first replay is up to the caller.

        Raises whatever keeps it from being recorded.
        """
        ...


class CannotRecord(UsageError):
    """A function that a graph cannot hold. Never reaches the user: the wrapped network runs instead."""


class CudaRecorder:
    """CUDA graphs in one memory pool.

    Graphs of one pool may share memory for what they hold in between, and for outputs: these are good until the next
    replay of any of them.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream: Any = None
        self._pool: Any = None
        self._anchor: Any = None

    def record(self, function: Function) -> Function:
        if self.device.type != "cuda":
            raise CannotRecord(f"CUDA graphs need a CUDA device, the network is on {self.device}")
        with torch.cuda.device(self.device):
            self._open()
            self._rehearse(function)
            try:
                return self._capture(function)
            except BaseException:
                self._pool = None  # a capture that broke off may leave its pool in any state
                raise

    def _open(self) -> None:
        if self._stream is None:
            self._stream = torch.cuda.Stream(self.device)
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
            # a pool ends with its last graph and cannot be used again: this one is never dropped
            self._anchor = self._capture(lambda: (torch.zeros(1, device=self.device),))

    def _rehearse(self, function: Function) -> None:
        """Libraries allocate and choose algorithms at their first call, which must not fall into the capture."""
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream), HostFree():
            function()
        current.wait_stream(self._stream)

    def _capture(self, function: Function) -> Function:
        graph = torch.cuda.CUDAGraph()
        current = torch.cuda.current_stream()
        try:
            # other threads may go on with what a capture forbids
            with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
                outputs = function()
        finally:
            torch.cuda.set_stream(current)  # torch.cuda.graph leaves its own stream behind where capture fails

        def replay() -> Outputs:
            graph.replay()
            return outputs

        return replay


class Rerun:
    """Runs the function again into the outputs of the first time: a graph in all but speed, on any device (tests)."""

    def record(self, function: Function) -> Function:
        with HostFree():
            outputs = function()

        def replay() -> Outputs:
            for output, new in zip(outputs, function(), strict=True):
                output.copy_(new)
            return outputs

        return replay


class HostFree(TorchDispatchMode):
    """Raises CannotRecord where host and device wait for each other's numbers.

    A capture would fail there, too, but leaves more behind; and torch's own detector is one for all threads.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        result = func(*args, **(kwargs or {})) if name not in _WAITING else None
        if name in _WAITING or _picks_by_mask(name, args) or _crosses(name, args, result):
            raise CannotRecord(f"host and device wait for each other ({name})")
        return result


_WAITING = frozenset(  # for how many there are, or for a number itself
    {
        "_local_scalar_dense",
        "_unique2",
        "allclose",
        "bincount",
        "equal",
        "is_nonzero",
        "item",
        "masked_select",
        "nonzero",
        "unique_consecutive",
        "unique_dim",
    }
)


def _picks_by_mask(name: str, args: Any) -> bool:
    """Whether how much is picked depends on the numbers in a mask."""
    if name == "where":
        return len(args) == 1
    indices = args[1] if name in ("index", "index_put", "index_put_") else ()
    return any(index is not None and index.dtype == torch.bool for index in indices)


def _crosses(name: str, args: Any, result: Any) -> bool:
    """Whether numbers go from host to device or back."""
    if name in ("to", "_to_copy", "copy_"):
        source = args[1] if name == "copy_" else args[0]
        return bool(source.device.type != result.device.type)
    return name in ("lift_fresh", "detach_") and args[0].device.type != "cpu"  # how torch.tensor ends
