"""From tokens to the hidden states that enter layer 0: token embedding, a factor, learned positions, a norm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .widen import widened


@dataclass(frozen=True)
class Embedding:
    """``positions`` maps positions [B, N] to what is added; None where the model's attention knows positions itself."""

    tokens: Any
    project: Any  # OPT embeds narrower than its layers are
    scale: float
    positions: Callable[[Any, Tensor], Tensor] | None
    table: Any  # of learned positions
    last: int  # the last position there is: fillers of a draft may lie behind it
    norm: Any  # of Bloom and NanoChat

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """[B, N, H] from tokens and positions [B, N]."""
        hidden: Tensor = self.tokens(tokens)
        if self.project is not None:
            hidden = self.project(hidden)
        if self.scale != 1:
            hidden = hidden * hidden.new_full((), self.scale)  # made on the device: the host waits for nothing
        if self.positions is not None:
            hidden = hidden + self.positions(self.table, positions.clamp(max=self.last))
        return hidden if self.norm is None else self.norm(hidden)

    def in_float64(self) -> Embedding:
        wide = {name: widened(getattr(self, name)) for name in ("tokens", "project", "table", "norm")}
        return replace(self, **wide)


def embedding_of(body: Any, config: Any) -> Embedding:
    """The embedding of a decoder."""
    tokens = body.get_input_embeddings()
    positions, table = _positions(body, config)
    last = (getattr(config, "max_position_embeddings", None) or 1) - 1
    return Embedding(
        tokens, getattr(body, "project_in", None), _scale(tokens, config), positions, table, last, _norm(body, config)
    )


def _scale(tokens: Any, config: Any) -> float:
    """Granite names a factor; gemma's belonged to the model before transformers 5 made it part of the embedding."""
    root = float(config.hidden_size**0.5)
    if config.model_type in ("gemma", "gemma2", "vaultgemma") and not hasattr(tokens, "embed_scale"):
        return root
    if getattr(config, "mup_enabled", False):  # afmoe
        return root
    return float(getattr(config, "embedding_multiplier", None) or 1.0)


def _norm(body: Any, config: Any) -> Any:
    return body.norm if config.model_type == "nanochat" else getattr(body, "word_embeddings_layernorm", None)


def _positions(body: Any, config: Any) -> tuple[Callable[[Any, Tensor], Tensor] | None, Any]:
    if hasattr(body, "wpe"):
        return (lambda table, positions: table(positions)), body.wpe
    if config.model_type in ("opt", "biogpt"):
        return _opt_positions, body.embed_positions
    return None, None


def _opt_positions(table: Any, positions: Tensor) -> Tensor:
    return table(torch.ones_like(positions), position_ids=positions)  # type: ignore[no-any-return]
