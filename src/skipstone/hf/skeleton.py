"""A model without its weights: what config.json describes, built in no time and no memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import CheckpointError, UnsupportedModel, did_you_mean
from .body import check_supported
from .checkpoint import LONGEST, Checkpoint
from .network import context_of
from .quiet import quiet
from .reason import shown, told_as

# text-only classes first: a multimodal wrapper's other parts need not be loaded where its text part has a class
_AUTO_CLASSES = ("AutoModelForCausalLM", "AutoModelForMultimodalLM", "AutoModelForImageTextToText")


@dataclass(frozen=True)
class Skeleton:
    """``model`` lies on the meta device: shapes and modules, but no numbers."""

    config: Any
    model: Any
    auto_class: Any

    @property
    def text_config(self) -> Any:
        return self.config.get_text_config()

    @property
    def count(self) -> int:
        """Parameters, shared ones once."""
        return sum(weight.numel() for weight in self.model.parameters())


def skeletons(checkpoint: Checkpoint) -> Iterator[Skeleton]:
    """The model with each class that transformers has for its type, text-only first; at least one.

    Raises UnsupportedModel, and CheckpointError where the files hold another model than config.json describes.
    """
    config = _config(checkpoint)
    for auto in _auto_classes(config):
        yield _skeleton(checkpoint, config, auto)


def _config(checkpoint: Checkpoint) -> Any:
    import transformers

    _check_type(checkpoint)
    with quiet(), told_as(CheckpointError, f"{checkpoint.folder} cannot be loaded", memory=True):
        config: Any = transformers.AutoConfig.from_pretrained(
            checkpoint.folder, local_files_only=True, trust_remote_code=False
        )
        config._attn_implementation = None  # the model's default: our masks are made for it, and files name no code
        _check_layers(checkpoint, config)
        _check_context(checkpoint, config)
    return config


def _check_type(checkpoint: Checkpoint) -> None:
    import transformers

    kind, known = checkpoint.config.get("model_type"), list(transformers.CONFIG_MAPPING)
    if not isinstance(kind, str):
        raise UnsupportedModel(f"{checkpoint.folder / 'config.json'} names no model_type")
    if kind not in known:
        kind = kind if len(kind) < 80 else f"{kind[:80]}…"
        near = did_you_mean(kind, known)
        hint = f"transformers {transformers.__version__} has none of that name" if near.startswith("known") else near
        code = ", and code that comes with a model is not run" if "auto_map" in checkpoint.config else ""
        raise UnsupportedModel(f'model type "{kind}" is not supported yet: {hint}{code}')


def _check_layers(checkpoint: Checkpoint, config: Any) -> None:
    layers = config.get_text_config().num_hidden_layers
    if layers > len(checkpoint.tensors):
        raise CheckpointError(
            f"{checkpoint.folder} has {len(checkpoint.tensors)} weights, but config.json says "
            f"num_hidden_layers={layers}: the weights do not belong to this config.json"
        )


def _check_context(checkpoint: Checkpoint, config: Any) -> None:
    context = context_of(config.get_text_config())
    if not 1 <= context <= LONGEST:
        raise CheckpointError(f"{checkpoint.folder} has a context of {shown(context)} tokens, which no model has")


def _auto_classes(config: Any) -> list[Any]:
    import transformers

    autos = [auto for name in _AUTO_CLASSES if (auto := getattr(transformers, name, None)) is not None]
    found = [auto for auto in autos if type(config) in auto._model_mapping]
    if not found:
        why = "is an encoder-decoder" if getattr(config, "is_encoder_decoder", False) else "does not generate text"
        raise UnsupportedModel(f'model type "{config.model_type}" {why}: use a decoder-only model')
    return found


def _skeleton(checkpoint: Checkpoint, config: Any, auto: Any) -> Skeleton:
    with quiet(), told_as(CheckpointError, f"{checkpoint.folder} cannot be loaded", memory=True):
        with torch.device("meta"):
            model = auto.from_config(config, trust_remote_code=False)
        check_supported(model, model.config.get_text_config())
        packed = 16 if "quantization_config" in checkpoint.config else 2
        check_sizes(checkpoint.folder, checkpoint.count, model, packed)
    return Skeleton(config, model.eval(), auto)


def check_sizes(what: object, held: int, model: Any, packed: int = 2) -> None:
    """Raise CheckpointError where ``model``, on the meta device, is much larger than the ``held`` numbers of its files.

    What files lack would be made up, as much as there is memory for; a few missing weights are told by name, once
    loaded. Quantised files hold up to 16 weights (``packed``) in a number.
    """
    weights = sum(weight.numel() for weight in model.parameters())
    buffers = sum(buffer.numel() for buffer in model.buffers())
    if weights > held * packed + 2**24 or buffers > held * 2 + 2**28:
        raise CheckpointError(
            f"{what} holds {held:.2g} numbers, but its settings describe a model of {weights + buffers:.2g}: the "
            "weights do not belong to these settings"
        )


def layer_names(names: Iterable[str]) -> dict[str, int]:
    """The highest layer number of each kind of weight, under its name in layer 0."""
    found: dict[str, int] = {}
    for name in names:
        number = re.search(r"\.(\d+)\.", name)
        if number:
            kind = f"{name[: number.start()]}.0.{name[number.end() :]}"
            found[kind] = max(found.get(kind, 0), int(number[1]))
    return found
