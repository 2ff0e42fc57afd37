"""A transformers model's own forward pass, with layers left out by some samples and hidden states handed out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from ..errors import PlanError, UnsupportedModel
from ..hf.body import body_of, check_architecture, layer_list
from .dropout import Keep
from .dropping_layer import DroppingLayer, OutputForm


@contextmanager
def exits(
    model: Any, on: Collection[int], keep: Keep | None = None, *, resting: int | None = None
) -> Iterator[dict[int, Tensor]]:
    """While this is open, ``model`` in training mode runs with layer dropout, and fills the dictionary given out.

    It holds [B, N, H] after each layer of ``on``, before the final norm, once the model has run:

        with exits(model, curriculum.on(step), dropout.at(step, micro_batch)) as hidden:
            model(input_ids, logits_to_keep=1)
        loss = EarlyExitLoss.of(model)(hidden, labels, weights.normalised(hidden))

    Layers from ``resting`` on run without gradients and without dropout, for what they say alone.
    Only the forward pass needs it open, not the backward pass, gradient checkpointing included. Afterwards the model is
    what it was: layers stand in for others, parameters keep their names. ``output_hidden_states`` has no use here (it
    shows the samples kept, not the batch). Raises UnsupportedModel where the model's layers cannot be found or run so.
    """
    check_architecture(model, model.config.get_text_config())
    layers = _layers(model)
    _check(on, len(layers))
    hidden: dict[int, Tensor] = {}
    originals = list(layers)
    form = OutputForm()
    try:
        for index, layer in enumerate(originals):
            seen = _nothing if index not in on else partial(hidden.__setitem__, index)
            rests = resting is not None and index >= resting
            kept = None if keep is None or rests else partial(keep, index)
            layers[index] = DroppingLayer(layer, kept, seen, form, rests)
        yield hidden
    finally:
        for index, layer in enumerate(originals):
            layers[index] = layer


def _nothing(_: Tensor) -> None:
    pass


def _layers(model: Any) -> nn.ModuleList:
    body, _ = body_of(model)
    layers = layer_list(body)
    if layers is None:
        raise UnsupportedModel(f"{type(model).__name__} keeps no list of decoder layers that could be run one by one")
    return layers


def _check(on: Collection[int], layers: int) -> None:
    for layer in on:
        if not 0 <= layer < layers:
            raise PlanError(f"an exit after layer {layer} of a model with layers 0..{layers - 1}")
