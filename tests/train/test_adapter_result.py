"""The adapter that training writes: whose it is, for Skipstone and for any other program."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from lora import needs_peft

import skipstone
from skipstone.hf.adapters import read_adapter
from skipstone.hf.quiet import quiet
from skipstone.train.recipe import Recipe
from skipstone.train.result import Base, Trained
from skipstone.train.run import train

pytestmark = needs_peft


@pytest.fixture
def trained(recipe: Callable[..., Recipe], folder: Path) -> Trained:
    return train(recipe(lora_rank=2, exits=[2], steps=2), folder)


def _written(trained: Trained, folder: Path) -> Path:
    folder.mkdir()
    trained.save(folder)
    return folder


def test_peft_alone_loads_an_adapter_with_its_base_and_says_what_skipstone_says(
    trained: Trained, tmp_path: Path
) -> None:
    from peft import AutoPeftModelForCausalLM

    out = _written(trained, tmp_path / "adapter")
    with quiet():
        theirs = AutoPeftModelForCausalLM.from_pretrained(out)
    ours = skipstone.load(out, weights="stock").loaded.transformers_model()
    tokens = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        said = theirs.eval()(tokens).logits
        with theirs.disable_adapter():
            assert not torch.allclose(said, theirs(tokens).logits)
        torch.testing.assert_close(ours(tokens).logits, said)


def test_a_base_given_by_a_short_name_is_the_hub_id_for_others_and_stays_the_short_name_here(
    trained: Trained, tmp_path: Path
) -> None:
    from peft import PeftConfig

    out = _written(
        replace(trained, base=Base("HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2-135m")), tmp_path / "adapter"
    )
    settings = json.loads((out / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert settings["skipstone_base"] == "smollm2-135m"
    assert read_adapter(out).base == "smollm2-135m"
    with pytest.warns(UserWarning, match="skipstone_base.*skipstone_exits"):
        read = PeftConfig.from_pretrained(str(out))
    assert read.base_model_name_or_path == "HuggingFaceTB/SmolLM2-135M-Instruct"


def test_the_checkpoint_of_this_repository_names_its_base_for_others_too() -> None:
    folder = Path(__file__).parents[2] / "checkpoints" / "smollm2-135m-layerskip" / "adapter"
    settings = json.loads((folder / "adapter_config.json").read_text())
    named = {name: settings[name] for name in ("base_model_name_or_path", "skipstone_base")}
    assert named == {
        "base_model_name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "skipstone_base": "smollm2-135m",
    }
