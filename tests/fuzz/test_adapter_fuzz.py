"""However an adapter folder is spoilt: an error of ours in one line, or a model that passes parity."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from folders import change
from fuzzing import HOSTILE, obeys, spoil_bytes, spoil_json
from lora import adapted, needs_peft
from tiny_folder import tiny_folder

import skipstone

pytestmark = needs_peft


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tiny_folder(tmp_path_factory.mktemp("models") / "base", layers=2)
    adapted(base).save_pretrained(base.parent / "adapter")
    return base.parent / "adapter"


@pytest.fixture
def adapter(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "adapter"))


def load(adapter: Path) -> None:
    model = skipstone.load(adapter, progress=lambda line: None, offline=True)
    model.generate("the", max_new_tokens=2, do_sample=False)


def test_the_sound_adapter_works(adapter: Path) -> None:
    assert obeys(lambda: load(adapter)) == "works"


@pytest.mark.parametrize("seed", range(40))
def test_values_of_the_adapters_config(adapter: Path, seed: int) -> None:
    spoil_json(adapter / "adapter_config.json", random.Random(seed))
    obeys(lambda: load(adapter))


KEYS = [
    "r",
    "lora_alpha",
    "target_modules",
    "peft_type",
    "task_type",
    "base_model_name_or_path",
    "rank_pattern",
    "bias",
]
KEYS += ["alpha_pattern", "layers_to_transform", "modules_to_save", "init_lora_weights", "use_dora", "use_rslora", "x"]


@pytest.mark.parametrize("seed", range(50))
def test_hostile_values_of_the_keys_that_matter(adapter: Path, seed: int) -> None:
    rng = random.Random(seed)
    change(
        adapter / "adapter_config.json", **{rng.choice(KEYS): rng.choice(HOSTILE) for _ in range(rng.choice([1, 2]))}
    )
    obeys(lambda: load(adapter))


@pytest.mark.parametrize("seed", range(20))
def test_bytes_of_the_adapter(adapter: Path, seed: int) -> None:
    name = ("adapter_config.json", "adapter_model.safetensors")[seed % 2]
    spoil_bytes(adapter / name, random.Random(seed))
    obeys(lambda: load(adapter))
