"""From a model folder to a checked network and its tokenizer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..errors import CheckpointError, UsageError
from . import memory
from .adapters import Adapter, merge, need_peft
from .checkpoint import Checkpoint, read_checkpoint
from .fingerprint import fingerprint
from .fused import FusedNetwork
from .notes import notes_on, notes_on_generation
from .placing import DeviceMap, pick_device, pick_dtype
from .prepare import DecoderNetwork, check_weights, prepare
from .reason import shown, told_as
from .tokenizer import HFTokenizer
from .trained import exits_of
from .weights import load_weights

_VOLATILE = ("_name_or_path", "transformers_version")  # of a config: where it came from


@dataclass(frozen=True)
class LoadedModel:
    """A network, its tokenizer, and what the model's generation_config asks for.

    ``notes`` is what a user would not expect of it, a line each: numbers converted, adapters merged, …
    """

    name: str
    network: DecoderNetwork
    tokenizer: HFTokenizer
    generation: dict[str, Any]
    parity_gap: float
    notes: list[str] = field(default_factory=list)
    build: Callable[[], Any] | None = None  # the transformers model, loaded anew
    fingerprint: Callable[[], str] | None = None  # which model it is, where it came from a folder
    exits: tuple[int, ...] = ()  # it was trained for, as far as that is recorded

    @property
    def sizes(self) -> str:
        """A digest of its config: models that are alike but for their weights take as long."""
        settings = self.network.model.config.get_text_config().to_dict()
        kept = {name: value for name, value in settings.items() if name not in _VOLATILE}
        return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()[:16]

    @property
    def path(self) -> str:
        """Whose code runs the layers: "fused", our own, or "generic", the model's modules."""
        return "fused" if isinstance(self.network, FusedNetwork) else "generic"

    def transformers_model(self) -> Any:
        """The model as transformers runs it: a second copy where ours has packed its weights.

        Raises UsageError where there is none to be had.
        """
        if self.network.weights == "stock":
            return self.network.model
        if self.build is None:
            raise UsageError(f"{self.name} has packed its weights and came from no folder: load it with weights stock")
        return self.build()


def load_folder(
    folder: Path,
    *,
    adapters: Sequence[Adapter] = (),
    name: str = "",
    dtype: str = "auto",
    device: str = "auto",
    device_map: DeviceMap | None = None,
    weights: str = "auto",
) -> LoadedModel:
    """Load a Hugging Face folder with its ``adapters`` and check our pass against the model's own.

    ``dtype`` auto is float32 on a CPU and the checkpoint's own elsewhere; ``weights`` as for ``prepare``. Raises
    ModelNotFound, CheckpointError, UnsupportedModel, ParityError, UsageError.
    """
    check_weights(weights)
    for adapter in adapters:
        need_peft(adapter)
    checkpoint = read_checkpoint(folder)
    target = pick_device(device)
    merged: list[str] = []

    def build() -> Any:
        model = load_weights(checkpoint, pick_dtype(dtype, target), target, device_map)
        merged.clear()
        for adapter in adapters:
            model, said = merge(model, adapter)
            merged.append(said)
        return model.requires_grad_(False)

    model = build()
    with told_as(CheckpointError, f"{folder} cannot be run"):
        ready = prepare(model, weights)
    tokenizer, generation = _tokenizer(folder, adapters), _generation(checkpoint, model)
    memory.give_back()  # what reading the tokenizer took
    memory.unmap_libraries(Path(torch.__file__).parent / "lib")
    about = [*notes_on(checkpoint, ready.network, dtype, adapters), *notes_on_generation(generation)]
    notes = [*merged, *about, *ready.notes]
    identify = partial(fingerprint, checkpoint, adapters)
    parts = (name or str(folder), ready.network, tokenizer, generation, ready.gap, notes)
    return LoadedModel(*parts, build, identify, tuple(exits_of(folder, checkpoint.config, adapters)))


def _tokenizer(folder: Path, adapters: Sequence[Adapter]) -> HFTokenizer:
    """The base model's, unless an adapter brings one."""
    own = [adapter.folder for adapter in adapters if HFTokenizer.lies_in(adapter.folder)]
    return HFTokenizer.load(own[-1] if own else folder)


def _generation(checkpoint: Checkpoint, model: Any) -> dict[str, Any]:
    """generation_config as a dictionary. Raises CheckpointError where it ends texts at what is no token."""
    settings = dict(model.generation_config.to_dict()) if model.generation_config is not None else {}
    eos = settings.get("eos_token_id")
    for token in eos if isinstance(eos, list) else [eos]:
        if token is not None and (isinstance(token, bool) or not isinstance(token, int)):
            raise CheckpointError(f"{checkpoint.folder} has an eos_token_id of {shown(token)}, which is no token id")
    return settings
