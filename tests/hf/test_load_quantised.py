"""Quantised checkpoints: what transformers loads keeps its own modules, what it cannot ends in one line."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from folders import change, copy
from tiny_folder import save_tokenizer, tiny_folder
from transformers import AutoModelForCausalLM

import skipstone
from skipstone.errors import SkipstoneError, UnsupportedModel
from skipstone.hf.load import load_folder
from skipstone.hf.quantised import method_of, own_modules
from skipstone.hf.quiet import quiet

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny")


@no_gpu
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "quantised with bitsandbytes, which needs a GPU, and"),
        ({"load_in_8bit": True}, "quantised with bitsandbytes, which needs a GPU, and"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "quantised with gptq, which needs a GPU, and"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "quantised with awq, which needs a GPU, and"),
        ({"quant_method": "hqq"}, "quantised with hqq and cannot be loaded here"),
        ({"quant_method": "compressed-tensors"}, "quantised with compressed-tensors and cannot be loaded here"),
        ({"bits": 3}, "quantised with an unnamed method and cannot be loaded here"),
    ],
)
def test_what_cannot_be_loaded_here_is_told_with_the_way_out(
    folder: Path, tmp_path: Path, settings: dict[str, Any], says: str
) -> None:
    spoilt = copy(folder, tmp_path / "spoilt")
    change(spoilt / "config.json", quantization_config=settings)
    with pytest.raises(UnsupportedModel, match=f"{says}.*: use the model's original weights, or a GGUF file"):
        load_folder(spoilt)


@pytest.mark.parametrize(
    "settings", ["int4", 3, [1], {"quant_method": ["a"]}, {"quant_method": "zzz"}, {}, None, False]
)
def test_quantisation_that_is_none_ends_in_an_error_of_ours_or_a_model(
    folder: Path, tmp_path: Path, settings: Any
) -> None:
    spoilt = copy(folder, tmp_path / "spoilt")
    change(spoilt / "config.json", quantization_config=settings)
    with suppress(SkipstoneError):
        load_folder(spoilt)


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({}, ""),
        ({"quantization_config": None}, ""),
        ({"quantization_config": {"quant_method": "awq"}}, "awq"),
        ({"quantization_config": {"load_in_4bit": True}}, "bitsandbytes"),
        ({"quantization_config": {}}, "an unnamed method"),
    ],
)
def test_the_method_is_read_from_the_config(config: dict[str, Any], method: str) -> None:
    assert method_of(config) == method


def test_plain_weights_are_free_to_be_packed(folder: Path) -> None:
    assert own_modules(load_folder(folder).network.model) == ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(find_spec("torchao") is None, reason="torchao is not installed")
def test_int8_weights_of_torchao_run_in_their_own_modules(folder: Path, tmp_path: Path) -> None:
    from torchao.quantization import Int8WeightOnlyConfig
    from transformers import TorchAoConfig

    settings = TorchAoConfig(quant_type=Int8WeightOnlyConfig())
    with quiet():
        small = AutoModelForCausalLM.from_pretrained(folder, quantization_config=settings, dtype=torch.float32)
        small.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    said: list[str] = []
    model = skipstone.load(tmp_path, progress=said.append)
    assert said == ["generic path: its weights are quantised with torchao, so the model's own linears run"]
    assert type(model.network.model.model.layers[0].self_attn.q_proj.weight).__name__ == "Int8Tensor"
    tokens = model.generate("the and", max_new_tokens=12).tokens
    assert model.generate("the and", max_new_tokens=12, drafter="exit:layer=2").tokens == tokens
    ids = model.encode("the and")
    own = small.generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False, pad_token_id=1)
    assert own[0, len(ids) :].tolist() == tokens
