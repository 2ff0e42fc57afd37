"""What a training run ends with, and how it is written: a folder or adapter that any program loads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..errors import TrainingError
from ..hf.adapters import BASE
from ..hf.quiet import quiet
from ..hf.tokenizer import HFTokenizer
from .batch import plain
from .card import card
from .evaluate import Figures
from .plot import agreement_svg

EXITS = "skipstone_exits"  # in config.json, and in the adapter_config.json of an adapter


@dataclass(frozen=True)
class Base:
    """A model as an adapter's settings name it: by a hub id or folder, and by a name that is known here alone."""

    name: str = ""
    short: str = ""

    def settings(self) -> dict[str, str]:
        return {"base_model_name_or_path": self.name, **({BASE: self.short} if self.short else {})}


@dataclass(frozen=True)
class Trained:
    """``first_process`` is false in all processes but one, which alone is to save."""

    model: Any
    tokenizer: HFTokenizer
    exits: tuple[int, ...]
    before: Figures
    after: Figures
    about: Mapping[str, Any]  # recipe, data, log
    base: Base = field(default_factory=Base)  # the model an adapter was made for
    first_process: bool = True

    def save(self, folder: Path) -> None:
        """Write an ordinary Hugging Face folder (an adapter, of LoRA), with ``training.json`` and a plot."""
        config = plain(self.model).config
        setattr(config, EXITS, list(self.exits))
        config.use_cache = True
        self._as_stored()
        with quiet():
            self.model.save_pretrained(folder)
            self.tokenizer.tokenizer.save_pretrained(folder)
        if hasattr(self.model, "peft_config"):
            self._finish_adapter(folder / "adapter_config.json")
        (folder / "README.md").write_text(card(self, self._base_name()))
        (folder / "training.json").write_text(json.dumps(self.report(), indent=1) + "\n")
        for weights in folder.glob("*.safetensors"):
            shutil.copymode(folder / "training.json", weights)  # its own writer keeps all others from reading it
        (folder / "agreement.svg").write_text(agreement_svg(self.before, self.after, self.exits))

    def _as_stored(self) -> None:
        """Rounds what was trained to the recipe's type; of an adapter that is the adapter alone, frozen layers too.

        Raises TrainingError where a weight is too large for it.
        """
        dtype = getattr(torch, self.about["recipe"]["stored"])
        adapter = hasattr(self.model, "peft_config")
        for name, weight in self.model.named_parameters():
            if "lora_" in name or not adapter:
                weight.data = _rounded(name, weight.data, dtype)
        if not adapter:
            self.model.to(dtype)  # buffers too

    def _base_name(self) -> str:
        """As others know it: of a folder its own name, not where it lies here."""
        name = self.base.name or str(self.about["recipe"]["model"])
        return Path(name).name if Path(name).expanduser().exists() else name

    def report(self) -> dict[str, Any]:
        """Settings and figures; ``last_layer`` is what training cost the whole model."""
        last = {
            "loss_before": self.before.last_loss,
            "loss_after": self.after.last_loss,
            "same_choice_as_before": self.after.same_choices(self.before),
        }
        figures = {"last_layer": last, "before": self.before.to_json(), "after": self.after.to_json()}
        return {"trained_exits": list(self.exits), **figures, **self.about}

    def _finish_adapter(self, file: Path) -> None:
        settings = json.loads(file.read_text())
        settings.update({EXITS: list(self.exits), **self.base.settings()})
        file.write_text(json.dumps(settings, indent=2) + "\n")


def _rounded(name: str, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    rounded = weight.to(dtype)
    if not rounded.isfinite().all():
        raise TrainingError(
            f"{name} has weights that are infinite as {dtype}: nothing was written; the same command with --resume and "
            "stored float32 only evaluates and writes"
        )
    return rounded
