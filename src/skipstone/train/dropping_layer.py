"""A decoder layer that some samples of a batch leave out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache

from ..errors import TrainingError, UnsupportedModel, UsageError

_SAME_FOR_ALL = "cache_position"  # [N], where all other arguments of one dimension would be a mystery


@dataclass
class OutputForm:
    """Whether a model's layers return a tuple, as some do: known once one of them has run."""

    tuples: bool | None = None


class DroppingLayer(nn.Module):
    """Stands in a model's list of layers for ``layer`` during a forward pass.

    Samples that are not kept leave the batch before the layer and come back behind it as they were. All this lies
    outside of the layer's own ``forward``, which gradient checkpointing runs again: it never sees the others.
    A layer that ``rests`` runs without gradients.
    """

    def __init__(
        self,
        layer: nn.Module,
        kept: Callable[[int], Tensor] | None,
        seen: Callable[[Tensor], None],
        form: OutputForm,
        rests: bool = False,
    ) -> None:
        super().__init__()
        self.layer = layer
        self._kept = kept  # batch -> [batch] bool on the CPU; None: all are kept
        self._seen = seen
        self._form = form
        self._rests = rests
        self.training = layer.training

    def __getattr__(self, name: str) -> Any:
        """Models read facts off their layers, such as the kind of attention."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("layer"), name)

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        """hidden_states [B, N, H] and the layer's own arguments; returns what the layer would."""
        batch = hidden_states.shape[0]
        rows = self._rows(batch)
        nobody = rows is not None and not len(rows)
        cut = Cut(rows, batch, hidden_states.device)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self._rests):
            output = hidden_states if nobody else self._run(cut, hidden_states, args, kwargs)
        self._seen(output)
        return (output,) if self._returns_tuples() else output

    def _rows(self, batch: int) -> Tensor | None:
        """[K] the samples that go through the layer, on the CPU; None: all."""
        if self._kept is None or not self.layer.training:
            return None
        kept = self._kept(batch)
        if kept.shape != (batch,) or kept.dtype != torch.bool:
            raise UsageError(f"kept samples are {kept.dtype} {list(kept.shape)}: give bool [{batch}]")
        return None if bool(kept.all()) else kept.nonzero().flatten()

    def _run(self, cut: Cut, hidden: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        positional = [cut(f"argument {number}", value) for number, value in enumerate(args, 1)]
        named = {name: cut(name, value) for name, value in kwargs.items()}
        output = self.layer(cut("hidden_states", hidden), *positional, **named)
        self._form.tuples = isinstance(output, tuple)
        return cut.back(hidden, output[0] if self._form.tuples else output)

    def _returns_tuples(self) -> bool:
        if self._form.tuples is None:
            raise TrainingError("the first layer was dropped for all samples: keep at least one there")
        return self._form.tuples


class Cut:
    """Arguments of a layer without the samples that leave it out; nothing is cut where all are kept."""

    def __init__(self, rows: Tensor | None, batch: int, device: torch.device) -> None:
        self.rows = None if rows is None else rows.to(device, non_blocking=True)
        self.batch = batch

    def __call__(self, name: str, value: Any) -> Any:
        if isinstance(value, Cache):
            return self._no_cache(value)
        if self.rows is None or value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, Tensor):
            return self._tensor(name, value, self.rows)
        if isinstance(value, (tuple, list)):
            return type(value)([self(name, part) for part in value])
        if isinstance(value, dict):
            return {key: self(f"{name}[{key}]", part) for key, part in value.items()}
        raise UnsupportedModel(
            f"{name} of a decoder layer is a {type(value).__name__}: no samples can be taken out of it"
        )

    def back(self, hidden: Tensor, output: Tensor) -> Tensor:
        """``output`` [K, N, H] in the places of its samples in ``hidden`` [B, N, H]."""
        return output if self.rows is None else hidden.index_copy(0, self.rows, output.to(hidden.dtype))

    def _tensor(self, name: str, value: Tensor, rows: Tensor) -> Tensor:
        if value.dim() == 0 or name == _SAME_FOR_ALL:
            return value
        if value.dim() > 1 and value.shape[0] == self.batch:
            return value.index_select(0, rows.to(value.device))
        if value.dim() > 1 and value.shape[0] == 1:
            return value
        raise UnsupportedModel(
            f"{name} of a decoder layer is {list(value.shape)} for {self.batch} samples: which part belongs to which "
            "is not known; train without layer dropout (p_max 0) or one sample at a time"
        )

    def _no_cache(self, cache: Cache) -> None:
        """Layers that see different samples cannot share a cache, and training never reads one."""
        if cache.get_seq_length():
            raise TrainingError("a forward pass that goes on from a cache cannot be trained on: give whole texts")
