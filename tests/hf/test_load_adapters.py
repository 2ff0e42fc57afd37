"""LoRA adapters: the base is found, the adapter merged, and both are said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from folders import change, copy
from lora import TARGETS, adapted, needs_peft
from tiny_folder import save_tokenizer, tiny_folder

import skipstone
from skipstone.errors import CheckpointError, ModelNotFound, UnsupportedModel
from skipstone.hf import adapters as module

TOKENS = torch.tensor([[5, 90, 7, 33]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "base")


@pytest.fixture(scope="module")
def adapter(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter folder; its logits for TOKENS lie beside it."""
    pytest.importorskip("peft")
    out = tmp_path_factory.mktemp("adapters") / "mine"
    tuned = adapted(folder)
    tuned.save_pretrained(out)
    with torch.inference_mode():
        torch.save(tuned(TOKENS).logits, out.parent / "logits.pt")
    return out


@pytest.fixture
def spoilt(adapter: Path, tmp_path: Path) -> Path:
    return copy(adapter, tmp_path / "spoilt")


def test_an_adapter_in_a_folder_that_is_called_so_is_told_with_the_folder_around_it() -> None:
    facts = ("base", "LORA", 4, (), {})
    assert str(module.Adapter(Path("out/mine/adapter"), *facts)) == "mine/adapter (LORA, rank 4)"
    assert str(module.Adapter(Path("out/mine"), *facts)) == "mine (LORA, rank 4)"


@needs_peft
def test_an_adapter_is_merged_into_the_base_it_names(adapter: Path, folder: Path) -> None:
    said: list[str] = []
    model = skipstone.load(adapter, weights="stock", progress=said.append)
    assert said == [
        f"the adapter mine (LORA, rank 4) was made for {folder}",
        "adapter mine (LORA, rank 4) merged into the weights",
    ]
    expected = torch.load(adapter.parent / "logits.pt")
    with torch.inference_mode():
        assert torch.allclose(model.network.model(TOKENS).logits, expected, atol=1e-4)
    assert not any("lora" in name for name, _ in model.network.model.named_parameters())


@needs_peft
def test_drafts_of_a_merged_model_change_no_text(adapter: Path) -> None:
    model = skipstone.load(adapter, dtype="float64", progress=lambda line: None)
    plain = model.generate("the and", max_new_tokens=12)
    assert model.generate("the and", max_new_tokens=12, drafter="exit:layer=2").tokens == plain.tokens


@needs_peft
def test_a_base_may_lie_beside_the_adapter(adapter: Path, folder: Path, tmp_path: Path) -> None:
    moved = copy(adapter, tmp_path / "models" / "adapter")
    copy(folder, tmp_path / "models" / "base")
    change(moved / "adapter_config.json", base_model_name_or_path="../base")
    assert skipstone.load(moved, progress=lambda line: None).network.num_layers == 4


@needs_peft
def test_an_adapter_of_an_adapter_is_merged_after_it(adapter: Path, tmp_path: Path) -> None:
    second = copy(adapter, tmp_path / "second")
    change(second / "adapter_config.json", base_model_name_or_path=str(adapter))
    said: list[str] = []
    skipstone.load(second, progress=said.append)
    assert said[2:] == [f"adapter {n} (LORA, rank 4) merged into the weights" for n in ("mine", "second")]


@needs_peft
def test_a_model_folder_that_brings_an_adapter_is_loaded_with_it(folder: Path, adapter: Path, tmp_path: Path) -> None:
    both = copy(folder, tmp_path / "both")
    shutil.copytree(adapter, both, dirs_exist_ok=True)
    change(both / "adapter_config.json", base_model_name_or_path="org/elsewhere")
    said: list[str] = []
    skipstone.load(both, progress=said.append)
    assert said == ["adapter both (LORA, rank 4) merged into the weights"]


@needs_peft
def test_an_adapters_own_tokenizer_goes_before_the_bases(spoilt: Path) -> None:
    save_tokenizer(spoilt, chat=False)
    assert not skipstone.load(spoilt, progress=lambda line: None).tokenizer.has_chat


def test_without_peft_it_is_told_how_to_get_it(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_adapter(tmp_path / "mine", peft_type="LORA", base_model_name_or_path=str(folder))
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedModel, match=r"takes peft to load: pip install 'skipstone\[lora\]'"):
        skipstone.load(tmp_path / "mine")


def write_adapter(folder: Path, **config: Any) -> None:
    """An adapter without any numbers in it."""
    from safetensors.torch import save_file

    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(config))
    save_file({}, folder / "adapter_model.safetensors")


@pytest.mark.parametrize(
    ("config", "kind", "says"),
    [
        (
            {"peft_type": "PROMPT_TUNING"},
            UnsupportedModel,
            "of kind 'PROMPT_TUNING', which is no change of a model's weights",
        ),
        ({"peft_type": ["LORA"]}, UnsupportedModel, "of kind"),
        ({}, UnsupportedModel, "of kind None"),
        ({"peft_type": "LORA", "megatron_config": {"a": 1}}, UnsupportedModel, "asks for Megatron"),
        ({"peft_type": "LORA"}, CheckpointError, "does not say which model it was made for"),
        ({"peft_type": "LORA", "base_model_name_or_path": 3}, CheckpointError, "does not say which model"),
        (
            {"peft_type": "LORA", "base_model_name_or_path": "/no/such"},
            ModelNotFound,
            "was made for it: base_model_name",
        ),
        ({"peft_type": "LORA", "base_model_name_or_path": "."}, CheckpointError, "is made for itself"),
    ],
)
def test_an_adapter_that_cannot_be_used_is_told_why(
    tmp_path: Path, config: dict[str, Any], kind: type[Exception], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: "there")
    write_adapter(tmp_path / "odd", **config)
    with pytest.raises(kind, match=says):
        skipstone.load(tmp_path / "odd", progress=lambda line: None)


def test_an_adapter_in_a_pickle_is_refused(tmp_path: Path) -> None:
    write_adapter(tmp_path / "odd", peft_type="LORA")
    (tmp_path / "odd" / "adapter_model.safetensors").rename(tmp_path / "odd" / "adapter_model.bin")
    with pytest.raises(CheckpointError, match="is a pickle, which can run code when read: refused"):
        skipstone.load(tmp_path / "odd")


@needs_peft
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda f: change(f / "adapter_config.json", r=8), "does not fit the model"),
        (lambda f: change(f / "adapter_config.json", target_modules=["nothing"]), "does not fit the model"),
        (lambda f: change(f / "adapter_config.json", target_modules=["q_proj"]), "16 of its weights have no place"),
        (lambda f: change(f / "adapter_config.json", target_modules=[*TARGETS, "o_proj"]), "8 of its weights"),
        (lambda f: change(f / "adapter_config.json", r=-1), "does not fit the model"),
        (lambda f: change(f / "adapter_config.json", task_type="DANCING"), "does not fit the model"),
        (lambda f: (f / "adapter_model.safetensors").write_bytes(b"\0" * 50), "truncated or damaged"),
        (lambda f: (f / "adapter_config.json").write_text("{"), "adapter_config.json cannot be read"),
    ],
)
def test_a_damaged_adapter_is_told_what_is_wrong_with_it(spoilt: Path, spoil: Any, says: str) -> None:
    spoil(spoilt)
    with pytest.raises(CheckpointError, match=says) as caught:
        skipstone.load(spoilt, progress=lambda line: None)
    assert "\n" not in str(caught.value)
