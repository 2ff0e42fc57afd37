"""From a folder to a checked network: shards, number types, notes, and what does not belong together."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from any_type import any_model
from folders import change, copy
from tiny_folder import save_tokenizer, tiny_folder
from transformers import AutoModelForCausalLM

import skipstone
from skipstone.draft.none import NoDrafter
from skipstone.errors import CheckpointError, ModelNotFound, SkipstoneError, UnsupportedModel, UsageError
from skipstone.hf.load import load_folder
from skipstone.hf.quiet import quiet
from skipstone.hf.trained import trained_exits
from skipstone.hf.wiring import Wiring
from skipstone.testing import tiny_network

TOKENS = torch.tensor([[5, 90, 7, 33]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def spoilt(folder: Path, tmp_path: Path) -> Path:
    return copy(folder, tmp_path / "spoilt")


def shards(folder: Path, to: Path) -> Path:
    with quiet():
        model = AutoModelForCausalLM.from_pretrained(folder)
        model.save_pretrained(to, max_shard_size="40KB")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (to / name).write_bytes((folder / name).read_bytes())
    return to


def rewrite(folder: Path, dtype: torch.dtype) -> Path:
    with quiet():
        AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).save_pretrained(folder)
    return folder


@torch.inference_mode()
def logits(folder: Path, **settings: Any) -> torch.Tensor:
    return load_folder(folder, weights="stock", **settings).network.model(TOKENS).logits


def test_shards_are_the_model_they_were_cut_from(folder: Path, tmp_path: Path) -> None:
    sharded = shards(folder, tmp_path / "sharded")
    assert len(list(sharded.glob("*.safetensors"))) > 2
    assert torch.equal(logits(sharded), logits(folder))


def test_embeddings_narrower_than_the_layers_are_no_damage(tmp_path: Path) -> None:
    model = any_model("opt", vocab_size=269, word_embed_proj_dim=16, do_layer_norm_before=False)
    with quiet():
        model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    assert torch.allclose(logits(tmp_path).double(), model(TOKENS).logits, atol=1e-4)


def test_an_ordinary_model_needs_no_notes(folder: Path) -> None:
    assert load_folder(folder).notes == []


def test_lost_digits_are_noted_unless_asked_for(spoilt: Path) -> None:
    rewrite(spoilt, torch.float64)
    assert load_folder(spoilt).notes == ["weights are float64 in the files and float32 in memory"]
    assert load_folder(spoilt, dtype="float32").notes == []
    rewrite(spoilt, torch.bfloat16)
    assert load_folder(spoilt).notes == []


def test_exits_that_training_recorded_are_noted(spoilt: Path) -> None:
    change(spoilt / "config.json", skipstone_exits=[2, 1])
    assert load_folder(spoilt).notes == ["config.json records trained exits: layers 1, 2"]


@pytest.mark.parametrize("recorded", [None, "8", 8, {}, [True, "2", -1, 0, 2.5], [[1]]])
def test_exits_that_are_no_layers_are_none(recorded: Any) -> None:
    assert trained_exits({"skipstone_exits": recorded}) == []


def test_notes_are_told_while_loading(spoilt: Path) -> None:
    said: list[str] = []
    change(spoilt / "config.json", skipstone_exits=[2])
    skipstone.load(spoilt, progress=said.append)
    assert said == ["config.json records trained exits: layers 2"]


def test_what_the_drafter_has_to_say_is_told_as_well(folder: Path) -> None:
    said: list[str] = []
    drafter = NoDrafter(NoDrafter.Options(), tiny_network())
    drafter.notes = ["this drafter never drafts"]
    assert skipstone.load(folder, drafter=drafter, progress=said.append).notes == said == drafter.notes


@pytest.mark.parametrize(
    "name", ["../evil.safetensors", "/etc/evil.safetensors", "a/b.safetensors", "..\\e.safetensors"]
)
def test_an_index_that_leads_elsewhere_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    sharded = shards(folder, tmp_path / "sharded")
    index = sharded / "model.safetensors.index.json"
    names = json.loads(index.read_text())["weight_map"]
    change(index, weight_map=names | {"lm_head.weight": name})
    with pytest.raises(CheckpointError, match="as a weight file, outside of its own folder: refused"):
        load_folder(sharded)


@pytest.mark.parametrize("name", ["../x.safetensors", "adapter_model.bin", 3, "none.safetensors"])
def test_a_config_that_names_odd_weight_files_is_refused(spoilt: Path, name: Any) -> None:
    change(spoilt / "config.json", transformers_weights=name)
    with pytest.raises(CheckpointError):
        load_folder(spoilt)


def test_a_missing_shard_is_named(folder: Path, tmp_path: Path) -> None:
    sharded = shards(folder, tmp_path / "sharded")
    lost = sorted(sharded.glob("*.safetensors"))[1]
    lost.unlink()
    with pytest.raises(CheckpointError, match=f"{lost.name} is missing, but the index names it"):
        load_folder(sharded)


def test_code_that_comes_with_a_model_is_never_run(spoilt: Path) -> None:
    (spoilt / "evil.py").write_text("raise SystemExit('executed')\n")
    names = dict.fromkeys(("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer"), "evil.Evil")
    change(spoilt / "config.json", auto_map=names)
    change(spoilt / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Evil", None]})
    load_folder(spoilt)  # transformers knows the type: its own code runs, not the folder's
    change(spoilt / "config.json", model_type="evil")
    with pytest.raises(UnsupportedModel, match=r'model type "evil" is not supported yet: .*code .* is not run'):
        load_folder(spoilt)


def test_an_attention_that_comes_from_the_hub_is_never_fetched(spoilt: Path) -> None:
    change(spoilt / "config.json", attn_implementation="evil/attention", _attn_implementation="evil/attention")
    assert load_folder(spoilt).network.model.config._attn_implementation in ("sdpa", "eager")


def test_a_model_type_is_guessed_where_it_is_misspelt(spoilt: Path) -> None:
    change(spoilt / "config.json", model_type="lama")
    with pytest.raises(UnsupportedModel, match='model type "lama" is not supported yet: did you mean "llama"'):
        load_folder(spoilt)


@pytest.mark.parametrize(
    ("kind", "says"),
    [("t5", "is an encoder-decoder"), ("vit", "does not generate text"), (None, "names no model_type")],
)
def test_what_is_no_decoder_is_told_so(spoilt: Path, kind: str | None, says: str) -> None:
    (spoilt / "config.json").write_text(json.dumps({"model_type": kind}))
    with pytest.raises(UnsupportedModel, match=says):
        load_folder(spoilt)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hidden_size": 2**17, "vocab_size": 269}, "embeddings of shape"),
        ({"intermediate_size": 2**19}, "its settings describe a model of 2e.08"),
        ({"num_hidden_layers": 2000}, "has 39 weights, but config.json says num_hidden_layers=2000"),
        ({"head_dim": 2**14, "num_attention_heads": 32, "num_key_value_heads": 32}, "its settings describe a model of"),
        ({"head_dim": 2**60}, "says head_dim=1152921504606846976, which no model has"),
        ({"num_hidden_layers": float("inf")}, "says num_hidden_layers=inf, which no model has"),
    ],
)
def test_a_config_much_larger_than_its_files_is_told_before_memory_is_taken(
    spoilt: Path, changes: dict[str, Any], says: str
) -> None:
    change(spoilt / "config.json", **changes)
    with pytest.raises(CheckpointError, match=says):
        load_folder(spoilt)


def test_an_eos_that_is_no_token_is_named(spoilt: Path) -> None:
    change(spoilt / "generation_config.json", eos_token_id=["</s>"])
    with pytest.raises(CheckpointError, match="'</s>', which is no token id"):
        load_folder(spoilt)


def test_a_pipe_among_the_files_is_not_waited_for(spoilt: Path) -> None:
    (spoilt / "tokenizer.json").unlink()
    os.mkfifo(spoilt / "tokenizer.json")
    with pytest.raises(CheckpointError, match="is neither a file nor a folder"):
        load_folder(spoilt)


def test_a_link_in_circles_is_no_config(spoilt: Path) -> None:
    (spoilt / "config.json").unlink()
    (spoilt / "config.json").symlink_to(spoilt / "config.json")
    with pytest.raises(ModelNotFound, match=r"has no config\.json"):
        load_folder(spoilt)


@pytest.mark.parametrize("device_map", ["balanced", "cpu"])
def test_a_device_map_that_is_not_known_is_told_what_is(folder: Path, device_map: str) -> None:
    with pytest.raises(UsageError, match="is not known: use auto, or a dictionary"):
        load_folder(folder, device_map=device_map)


def test_layers_on_several_devices_are_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="device_map runs layers on 0 and 1: use one device"):
        load_folder(folder, device_map={"model": 0, "lm_head": 1})


def test_the_embeddings_must_lie_in_memory(folder: Path) -> None:
    with pytest.raises(UsageError, match="leaves the embeddings on the disk"):
        load_folder(folder, device_map={"": "disk"})


def on_disk(*layers: int) -> dict[str, str]:
    places = {f"model.layers.{n}": "disk" if n in layers else "cpu" for n in range(4)}
    whole = ("model.embed_tokens", "model.norm", "model.rotary_emb")
    return {**places, **dict.fromkeys(whole, "cpu"), "lm_head": "disk"}


def test_layers_left_on_the_disk_give_the_same_text(folder: Path) -> None:
    said: list[str] = []
    spread = skipstone.load(folder, device_map=on_disk(1, 3), progress=said.append)
    assert {w.device.type for w in spread.network.model.parameters()} == {"cpu", "meta"}
    assert said[0] == "3 of 8 parts of the model are fetched from main memory or disk at every step"
    whole = skipstone.load(folder).generate("the", max_new_tokens=8)
    for drafter in ("none", "exit:layer=2", "skip:attn=1,mlp=2"):
        assert spread.generate("the", max_new_tokens=8, drafter=drafter).tokens == whole.tokens


def test_auto_leaves_a_model_that_fits_where_it_runs(folder: Path) -> None:
    loaded = load_folder(folder, device_map="auto", weights="stock")
    assert loaded.notes == []
    assert torch.equal(loaded.network.model(TOKENS).logits, logits(folder))


def test_every_error_is_one_line(spoilt: Path) -> None:
    change(spoilt / "config.json", hidden_act="nothing\nof\nthe kind")
    with pytest.raises(SkipstoneError) as caught:
        load_folder(spoilt)
    assert "\n" not in str(caught.value)


def test_layers_whose_shape_was_found_by_trying_are_noted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    likelier = Wiring(parallel=True)
    monkeypatch.setattr("skipstone.hf.notes.wirings_of", lambda layer, config: [likelier, Wiring()])
    says = "how its layers add up was found by trying: serial, accepted by parity"
    assert load_folder(folder).notes == [says]
