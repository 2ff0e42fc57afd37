"""LoRA adapters: small folders that change a base model, read and merged by peft."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, UnsupportedModel
from .json_file import read_json
from .quantised import own_modules
from .quiet import quiet
from .reason import shown, told_as
from .stored import Stored, stored_tensors
from .trained import trained_exits

WEIGHTS = "adapter_model.safetensors"  # in an adapter's folder
BASE = "skipstone_base"  # in its settings: the base by its short name, which goes before what peft reads
_CONFIG = "adapter_config.json"
_MERGEABLE = ("LORA", "ADALORA", "LOHA", "LOKR", "IA3", "OFT", "BOFT", "VERA", "FOURIERFT", "HRA", "BONE")


@dataclass(frozen=True)
class Adapter:
    """What an adapter folder says of itself. ``base`` names the model it was made for, "" where it does not."""

    folder: Path
    base: str
    kind: str
    rank: int | None
    targets: tuple[str, ...]
    tensors: dict[str, Stored]
    exits: tuple[int, ...] = ()  # it was trained for

    @property
    def count(self) -> int:
        """Parameters."""
        return sum(tensor.count for tensor in self.tensors.values())

    def __str__(self) -> str:
        rank = "" if self.rank is None else f", rank {self.rank}"
        return f"{self._name} ({self.kind}{rank})"

    @property
    def _name(self) -> str:
        """Its folder's; with the one around it where that says nothing."""
        folder = self.folder.absolute()
        return f"{folder.parent.name}/{folder.name}" if folder.name == "adapter" else folder.name


def is_adapter(folder: Path) -> bool:
    return (folder / _CONFIG).is_file()


def read_adapter(folder: Path) -> Adapter:
    """Raises CheckpointError for a damaged folder, UnsupportedModel for a kind that cannot be merged into weights."""
    with told_as(CheckpointError, f"the adapter {folder} cannot be read"):
        config = read_json(folder / _CONFIG)
        kind = config.get("peft_type")
        if kind not in _MERGEABLE:
            raise UnsupportedModel(
                f"the adapter {folder} is of kind {shown(kind)}, which is no change of a model's weights"
            )
        if config.get("megatron_config"):
            raise UnsupportedModel(f"the adapter {folder} asks for Megatron: merge it there, and load the merged model")
        if not (folder / WEIGHTS).is_file():
            pickled = (folder / "adapter_model.bin").exists()
            why = "is a pickle, which can run code when read: refused" if pickled else f"has no {WEIGHTS}"
            raise CheckpointError(f"the adapter {folder} {why}")
        rank, targets = config.get("r"), config.get("target_modules")
        return Adapter(
            folder,
            _base(config),
            str(kind),
            rank if isinstance(rank, int) else None,
            tuple(map(str, targets)) if isinstance(targets, list) else (str(targets),),
            stored_tensors([folder / WEIGHTS]),
            tuple(trained_exits(config)),
        )


def _base(config: Mapping[str, Any]) -> str:
    names = (config.get(BASE), config.get("base_model_name_or_path"))
    return next((name for name in names if isinstance(name, str) and name), "")


def need_peft(adapter: Adapter) -> None:
    """Raises UnsupportedModel, with the way out, where peft is not installed."""
    if find_spec("peft") is None:
        raise UnsupportedModel(
            f"{adapter.folder} is an adapter, which takes peft to load: pip install 'skipstone[lora]'"
        )


def merge(model: Any, adapter: Adapter) -> tuple[Any, str]:
    """The model with the adapter in its weights (beside them, where they are quantised), and what to say of it.

    Raises CheckpointError where the adapter was made for another model.
    """
    from peft import PeftConfig, PeftModel

    beside = own_modules(model)
    with quiet(), told_as(CheckpointError, f"the adapter {adapter.folder} does not fit the model"):
        config = PeftConfig.from_pretrained(str(adapter.folder))
        config.inference_mode = True
        frugal: Any = {"low_cpu_mem_usage": True}  # nothing is made up, and no method changes the base to begin with
        wrapped: Any = PeftModel(model, config, **frugal)
        names = getattr(model, "_checkpoint_conversion_mapping", {})  # of older checkpoints of the base
        check_keys(adapter, wrapped.load_adapter(str(adapter.folder), "default", key_mapping=names, **frugal))
        if beside:
            return wrapped.get_base_model().eval(), f"adapter {adapter} beside the weights: {beside}"
        merged = wrapped.merge_and_unload(safe_merge=True)
    return merged.eval(), f"adapter {adapter} merged into the weights"


def check_keys(adapter: Adapter, result: Any) -> None:
    """peft makes up what the files lack, and leaves out what has no place. Raises CheckpointError for either."""
    lost = sorted([*getattr(result, "missing_keys", ()), *getattr(result, "unexpected_keys", ())])
    ours = [name for name in lost if "lora_" in name or name in adapter.tensors]
    if ours:
        raise CheckpointError(
            f"the adapter {adapter.folder} does not fit the model: {len(ours)} of its weights have no place in it, or "
            f"are missing ({ours[0]}, …)"
        )
