"""Whole runs: what they end with, how they go on after a stop, and what is refused before the first step."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lora import needs_peft
from safetensors import safe_open
from tiny_folder import save_tokenizer, tiny_folder
from transformers import AutoModelForCausalLM, TrainerCallback

import skipstone
from skipstone.errors import (
    CheckpointError,
    PlanError,
    SkipstoneError,
    StoreError,
    TrainingError,
    UnsupportedModel,
    UsageError,
)
from skipstone.hf.quiet import quiet
from skipstone.testing import tiny_network
from skipstone.train.card import card
from skipstone.train.recipe import Recipe
from skipstone.train.result import Trained
from skipstone.train.run import train
from skipstone.train.run_folder import RunFolder
from skipstone.train.watch import Watch

TEXT = "the cat and the hat in the bin and a man "


def _saved(trained: Trained, folder: Path) -> Path:
    folder.mkdir()
    trained.save(folder)
    return folder


def test_the_result_is_an_ordinary_folder_that_records_its_exits(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    trained = train(recipe(exits=[2, 3], steps=10), folder)
    out = _saved(trained, tmp_path / "result")
    with quiet():
        model = AutoModelForCausalLM.from_pretrained(out)
    pairs = zip(trained.model.parameters(), model.parameters(), strict=True)
    assert all(torch.equal(a.detach(), b.detach()) for a, b in pairs)
    loaded = skipstone.load(out, drafter="exit:layer=2")
    assert "config.json records trained exits: layers 2, 3" in loaded.notes
    assert loaded.generate("the cat", max_new_tokens=4).text is not None
    report = json.loads((out / "training.json").read_text())
    assert report["recipe"]["exits"] == [2, 3]
    assert report["after"]["exits"][1]["loss"] < report["before"]["exits"][1]["loss"]
    assert 0 <= report["last_layer"]["same_choice_as_before"] <= 1
    assert [entry["step"] for entry in report["log"]] == list(range(1, 11))


class _Stop(TrainerCallback):
    """As a kill would: nothing more is written."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 3:
            raise KeyboardInterrupt


def test_a_run_that_was_stopped_goes_on_as_if_it_never_had_been(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    settings = {"steps": 6, "p_max": 0.5, "distil": 0.5}
    whole = train(recipe(**settings, output=str(tmp_path / "whole")), folder)
    with pytest.raises(KeyboardInterrupt):
        train(recipe(**settings), folder, watch=Watch(callbacks=[_Stop()]))
    place = RunFolder.beside(tmp_path / "out")
    assert place.last() == place.path / "checkpoint-2"
    with pytest.raises(UsageError, match="holds a run that did not end"):
        train(recipe(**settings), folder)
    with pytest.raises(UsageError, match=r"learning_rate is 0.5 and was 0.01"):
        train(recipe(**settings, learning_rate=0.5), folder, resume=True)
    resumed = train(recipe(**settings), folder, resume=True)
    assert resumed.before == whole.before
    assert resumed.after == whole.after
    steps = [json.loads(line) for line in place.log.read_text().splitlines()]
    other = [json.loads(line) for line in RunFolder.beside(tmp_path / "whole").log.read_text().splitlines()]
    assert [(line["step"], line["loss"]) for line in steps] == [(line["step"], line["loss"]) for line in other]
    pairs = zip(whole.model.parameters(), resumed.model.parameters(), strict=True)
    assert all(torch.equal(a.detach(), b.detach()) for a, b in pairs)


@pytest.mark.parametrize("model_type", ["gpt_neox", "mixtral"])
def test_a_model_whose_files_have_other_names_than_its_memory_goes_on_too(
    recipe: Callable[..., Recipe], tmp_path: Path, model_type: str
) -> None:
    folder = tmp_path / "odd"
    network = tiny_network(model_type, layers=3, vocab_size=5 + 256 + 8, max_position_embeddings=64)
    with quiet():
        network.model.float().save_pretrained(folder)
    save_tokenizer(folder)
    settings = {"model": str(folder), "exits": [2]}
    whole = train(recipe(**settings, output=str(tmp_path / "whole")), folder)
    with pytest.raises(KeyboardInterrupt):
        train(recipe(**settings), folder, watch=Watch(callbacks=[_Stop()]))
    resumed = train(recipe(**settings), folder, resume=True)
    assert resumed.after == whole.after
    pairs = zip(whole.model.parameters(), resumed.model.parameters(), strict=True)
    assert all(torch.equal(a.detach(), b.detach()) for a, b in pairs)


def test_a_second_run_of_the_same_output_is_refused_while_the_first_is_under_way(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    class Again(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            with (
                pytest.raises(UsageError, match="belongs to a run under way"),
                RunFolder.beside(tmp_path / "out").held(),
            ):
                pass

    train(recipe(), folder, watch=Watch(callbacks=[Again()]))


def test_a_run_that_failed_leaves_its_output_to_the_next_one_though_somebody_keeps_the_error(
    recipe: Callable[..., Recipe], folder: Path
) -> None:
    """As an interactive session does."""
    with pytest.raises(UsageError) as kept:
        train(recipe(eval_data=["none.txt"]), folder)
    assert train(recipe(), folder).before
    assert kept.value.__traceback__ is not None


@pytest.mark.parametrize("changed", ["data", "model"])
def test_a_run_goes_on_with_the_data_and_the_model_it_began_with_or_not_at_all(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path, changed: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(recipe(), folder, watch=Watch(callbacks=[_Stop()]))
    other = tiny_folder(tmp_path / "other", context=128) if changed == "model" else folder
    if changed == "model":
        weights = other / "model.safetensors"
        content = bytearray(weights.read_bytes())
        content[-64:] = bytes(64)
        weights.write_bytes(bytes(content))
    else:
        (tmp_path / "text.txt").write_text(TEXT * 41)
    with pytest.raises(UsageError, match=f"{changed}: not what the run"):
        train(recipe(), other, resume=True)


def test_what_is_logged_and_saved_how_often_may_change_and_no_token_is_lost_from_the_log(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    settings = {"steps": 6, "log_every": 4}
    with pytest.raises(KeyboardInterrupt):
        train(recipe(**settings), folder, watch=Watch(callbacks=[_Stop()]))
    train(recipe(**settings | {"log_every": 3, "save_every": 5}), folder, resume=True)
    lines = [json.loads(line) for line in RunFolder.beside(tmp_path / "out").log.read_text().splitlines()]
    assert [line["step"] for line in lines] == [2, 3, 5, 6]
    whole = train(recipe(steps=6, output=str(tmp_path / "whole")), folder)
    assert sum(line["tokens"] for line in lines) == sum(line["tokens"] for line in whole.report()["log"])


def test_a_checkpoint_that_was_killed_while_it_was_written_is_passed_over(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(recipe(save_every=1), folder, watch=Watch(callbacks=[_Stop()]))
    place = RunFolder.beside(tmp_path / "out")
    assert place.last() == place.path / "checkpoint-2"
    shutil.copytree(place.path / "checkpoint-2", place.path / "checkpoint-3")
    (place.path / "checkpoint-3" / "complete").unlink()
    (place.path / "checkpoint-3" / "trainer_state.json").write_text('{"global_st')
    trained = train(recipe(save_every=1), folder, resume=True)
    assert trained.report()["log"][-1]["step"] == 4


@needs_peft
def test_an_adapter_is_small_and_loads_with_its_base(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    start = {name: weight.clone() for name, weight in _plain(folder).named_parameters()}
    trained = train(recipe(lora_rank=2, distil=0.5, exits=[2]), folder)
    out = _saved(trained, tmp_path / "adapter")
    assert (out / "adapter_model.safetensors").is_file()
    assert not (out / "model.safetensors").exists()
    assert "--drafter exit" in (out / "README.md").read_text()
    assert (out / "README.md").read_text().startswith(f"# {folder.name}, trained")
    assert "More Information Needed" not in (out / "README.md").read_text()
    modes = {(out / name).stat().st_mode for name in ("adapter_model.safetensors", "training.json")}
    assert len(modes) == 1  # who may read the one may read the other
    loaded = skipstone.load(out)
    assert "adapter_config.json records trained exits: layers 2" in loaded.notes
    assert any("merged into the weights" in note for note in loaded.notes)
    frozen = {n: w for n, w in trained.model.named_parameters() if "lora_" not in n}
    assert all(not weight.requires_grad for weight in frozen.values())
    assert len(frozen) == len(start)


@needs_peft
def test_layers_before_the_exit_may_have_adapters_of_another_rank(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    given = {"lora_rank": 2, "lora_early_rank": 5, "agreement": 1, "exit_share": 0.5, "last_every": 2}
    trained = train(recipe(exits=[2], **given), folder)
    ranks = {name: weight.shape[0] for name, weight in trained.model.named_parameters() if "q_proj.lora_A" in name}
    assert list(ranks.values()) == [5, 5, 2, 2]
    out = _saved(trained, tmp_path / "adapter")
    merged = trained.model.merge_and_unload()
    loaded = skipstone.load(out, weights="stock").loaded.transformers_model()
    tokens = torch.tensor([[5, 6, 7]])
    torch.testing.assert_close(loaded(tokens).logits, merged.eval()(tokens).logits)


@needs_peft
def test_training_goes_on_with_an_adapter_and_compares_with_the_model_it_is_for(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    ranks = {"exits": [2], "lora_rank": 2, "lora_early_rank": 3}
    first = train(recipe(**ranks), folder)
    adapter = str(_saved(first, tmp_path / "adapter"))
    still = train(recipe(**ranks, adapter=adapter, learning_rate=1e-9, output=str(tmp_path / "still")), folder)
    assert still.after.last_loss == pytest.approx(first.after.last_loss, rel=1e-4)
    assert still.before == first.before
    for name, weight in first.model.named_parameters():
        torch.testing.assert_close(still.model.get_parameter(name), weight, rtol=0, atol=1e-5)
    further = train(recipe(**ranks, adapter=adapter, output=str(tmp_path / "further")), folder)
    assert further.after.last_loss < first.after.last_loss


@needs_peft
@pytest.mark.parametrize("lora", [{}, {"lora_rank": 2, "lora_early_rank": 3}])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_frozen_layers_stay_as_they_are_while_those_behind_learn(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path, lora: dict[str, int], checkpointing: bool
) -> None:
    first = train(recipe(exits=[2], **lora), folder)
    start = str(_saved(first, tmp_path / "start")) if lora else ""
    given = {**lora, "adapter": start, "agreement": 1, "exit_share": 0.5, "distil": 1.0, "frozen_layers": 2}
    trained = train(recipe(exits=[2], **given, checkpointing=checkpointing, output=str(tmp_path / "on")), folder)
    if not lora:
        first = train(recipe(exits=[2], steps=1, learning_rate=1e-12, output=str(tmp_path / "untouched")), folder)
    moved = {
        name
        for name, weight in first.model.named_parameters()
        if not torch.allclose(weight, trained.model.get_parameter(name), rtol=0, atol=1e-6)
    }
    assert moved
    assert not [name for name in moved if ".layers.0." in name or ".layers.1." in name or "embed_tokens" in name]
    assert {number for name in moved for number in (2, 3) if f".layers.{number}." in name} == {2, 3}


@needs_peft
@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({}, UsageError, "is to be trained further: give its lora_rank too"),
        ({"lora_rank": 3}, UsageError, "has r 2, the recipe 3: give the ranks"),
        ({"lora_rank": 2, "exits": [2], "lora_early_rank": 4}, UsageError, "has rank_pattern {}, the recipe "),
        ({"lora_rank": 2, "adapter": "nowhere"}, CheckpointError, "is no adapter folder"),
    ],
)
def test_an_adapter_that_cannot_go_on_is_refused(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path, given: Any, kind: type[SkipstoneError], said: str
) -> None:
    adapter = _saved(train(recipe(lora_rank=2, steps=1), folder), tmp_path / "adapter")
    with pytest.raises(kind, match=said):
        train(recipe(**{"adapter": str(adapter), "output": str(tmp_path / "new"), **given}), folder)


@needs_peft
@pytest.mark.parametrize("rank", [0, 2])
def test_what_was_trained_is_written_in_the_type_asked_for(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path, rank: int
) -> None:
    out = _saved(train(recipe(exits=[2], lora_rank=rank, stored="float16", steps=1), folder), tmp_path / "half")
    file = out / ("adapter_model.safetensors" if rank else "model.safetensors")
    with safe_open(file, "pt") as weights:
        assert {weights.get_tensor(name).dtype for name in weights.keys()} == {torch.float16}  # noqa: SIM118
    skipstone.load(out)


def _plain(folder: Path) -> Any:
    with quiet():
        return AutoModelForCausalLM.from_pretrained(folder)


def test_from_scratch_takes_settings_and_a_tokenizer_only(
    recipe: Callable[..., Recipe], folder: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(folder, bare)
    (bare / "model.safetensors").unlink()
    trained = train(recipe(scratch=True, curriculum="gradual", steps=6), bare)
    assert trained.exits == (2, 3)
    assert trained.after.last_loss < trained.before.last_loss
    assert skipstone.load(_saved(trained, tmp_path / "result")).generate("the", max_new_tokens=2) is not None
    with pytest.raises(CheckpointError, match="weights are missing"):
        train(recipe(output=str(tmp_path / "other")), bare)


def test_checkpointing_and_bfloat16_train_too(recipe: Callable[..., Recipe], folder: Path) -> None:
    trained = train(recipe(checkpointing=True, precision="bfloat16", p_max=0.3, steps=8), folder)
    assert trained.after.exits[2].loss < trained.before.exits[2].loss
    assert next(trained.model.parameters()).dtype == torch.float32


def test_a_loss_that_is_not_finite_names_the_last_good_state(recipe: Callable[..., Recipe], folder: Path) -> None:
    class Spoil(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 3:
                next(kwargs["model"].parameters()).data.fill_(float("nan"))

    with pytest.raises(TrainingError, match=r"loss of exit \d is nan.*stopped at step 4.*good state is .*checkpoint-2"):
        train(recipe(), folder, watch=Watch(callbacks=[Spoil()]))


def test_weights_that_are_not_finite_are_not_kept(recipe: Callable[..., Recipe], folder: Path, tmp_path: Path) -> None:
    class Spoil(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 4:
                next(kwargs["model"].parameters()).data[0, 0] = float("inf")

    with pytest.raises(TrainingError, match=r"weights after step 4 are not finite.*good state is .*checkpoint-2"):
        train(recipe(), folder, watch=Watch(callbacks=[Spoil()]))
    assert RunFolder.beside(tmp_path / "out").last() == tmp_path / "out.run" / "checkpoint-2"


def test_a_checkpoint_that_torch_cannot_write_is_trouble_with_the_disk(
    recipe: Callable[..., Recipe], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 130112 vs 130004")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(StoreError, match=r"could not be written to .*out.run: free some space"):
        train(recipe(), folder)


def test_a_run_without_a_checkpoint_begins_anew(recipe: Callable[..., Recipe], folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(recipe(save_every=9, exits=[2]), folder, watch=Watch(callbacks=[_Stop()]))
    trained = train(recipe(exits=[3], eval_rows=1), folder)
    assert trained.exits == (3,)
    assert trained.before.tokens == trained.after.tokens


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"exits": [4]}, PlanError, "exit 4 cannot be trained in a model of 4 layers: give exits from 2 to 3"),
        ({"exits": [1]}, PlanError, "exit 1 cannot be trained"),
        ({"period": 5}, UsageError, "period 5 over 4 layers: give a period from 1 to 4"),
        ({"p_max": 1.0}, UsageError, "p_max 1.0 is no dropout probability"),
        ({"p_max": -0.1}, UsageError, "p_max -0.1"),
        ({"length": 1000}, UsageError, "context of 256"),
        ({"steps": 0}, UsageError, "steps 0: give 1 or more"),
        ({"steps": "many"}, UsageError, "steps is 'many': give a whole number"),
        ({"scratch": 1}, UsageError, "scratch is 1: give true or false"),
        ({"learning_rate": float("nan")}, UsageError, "learning_rate nan"),
        ({"scratch": True, "distil": 0.5}, UsageError, "no starting model"),
        ({"curriculum": "rotary"}, UsageError, '"rotary" is not known: known: gradual, rotational'),
        ({"agreement": 1.5}, UsageError, "agreement 1.5: give the last layer's share"),
        ({"stored": "int4"}, UsageError, '"int4" is not known'),
        ({"exit_share": 1}, UsageError, "exit_share 1.0: give the exits' share"),
        ({"last_every": 2}, UsageError, "give exits, agreement"),
        (
            {"last_every": 3, "exits": [2], "agreement": 1},
            UsageError,
            "last_every 3 does not divide accumulation 2",
        ),
        ({"lora_early_rank": 4}, UsageError, "give lora_rank and exits too"),
        ({"warmup": 4}, UsageError, "warmup 4 of 4 steps leaves none for the full learning rate: give less"),
        ({"frozen_layers": 4}, PlanError, "frozen_layers 4 of a model of 4 layers: leave some"),
        ({"frozen_layers": -1}, UsageError, "frozen_layers -1: give 0 or more"),
        (
            {"frozen_layers": 2, "exits": [2], "agreement": 1, "last_every": 2},
            UsageError,
            "leaves only the last layer to learn, and last_every 2 has it rest",
        ),
        ({"learning_rte": 1}, UsageError, 'no "learning_rte": did you mean "learning_rate"'),
        ({"data": []}, UsageError, "no training data"),
        ({"data": ["/nowhere.txt"]}, UsageError, "cannot be read"),
        ({"device": "abacus"}, UsageError, 'device "abacus"'),
        ({"length": 200, "steps": 1, "eval_rows": 99}, None, ""),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_trained(
    recipe: Callable[..., Recipe],
    folder: Path,
    tmp_path: Path,
    given: Any,
    kind: type[SkipstoneError] | None,
    said: str,
) -> None:
    settings = {"period": 3, **given}
    if kind is None:
        train(recipe(**settings), folder)
        return
    with pytest.raises(kind, match=said.replace("(", r"\(")):
        train(recipe(**settings), folder)
    assert not RunFolder.beside(tmp_path / "out").path.exists()


def test_a_tokenizer_of_another_model_is_refused(recipe: Callable[..., Recipe], folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    settings = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**settings, "vocab_size": 64}))
    with pytest.raises(UsageError, match=r"tokenizer has 269 tokens and the model 64"):
        train(recipe(), other)


@pytest.mark.parametrize("kind", ["mamba", "t5", "abacus"])
def test_model_types_without_support_are_refused(recipe: Callable[..., Recipe], tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    save_tokenizer(other)
    (other / "config.json").write_text(json.dumps({"model_type": kind, "vocab_size": 269, "num_hidden_layers": 4}))
    with pytest.raises((UnsupportedModel, CheckpointError)):
        train(recipe(scratch=True), other)


def test_a_result_claims_speed_only_where_an_exit_is_often_right(recipe: Callable[..., Recipe], folder: Path) -> None:
    trained = train(recipe(exits=[2]), folder)
    found = trained.after.exits
    for agreement, said in ((0.1, "too seldom for that to be faster"), (0.9, "so that it generates faster")):
        exits = tuple(replace(each, agreement=agreement) for each in found)
        assert said in card(replace(trained, after=replace(trained.after, exits=exits)), "tiny")
