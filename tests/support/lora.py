"""LoRA adapters as peft trains and saves them, with random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from skipstone.hf.quiet import quiet

TARGETS = ("q_proj", "v_proj", "down_proj")
needs_peft = pytest.mark.skipif(find_spec("peft") is None, reason="peft is not installed")


def adapted(folder: Path, rank: int = 4, targets: Sequence[str] = TARGETS) -> Any:
    """The model of a folder with adapters beside its weights."""
    from peft import LoraConfig, get_peft_model

    with quiet():
        base = AutoModelForCausalLM.from_pretrained(folder)
        model = get_peft_model(base, LoraConfig(r=rank, target_modules=list(targets), task_type="CAUSAL_LM"))
    generator = torch.Generator().manual_seed(0)
    for name, weight in model.named_parameters():
        if "lora_" in name:
            weight.data = 0.2 * torch.randn(weight.shape, generator=generator)
    return model.eval()
