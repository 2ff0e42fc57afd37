"""``skipstone.load(early_exit=E)``: a label wherever its texts and figures go, and nothing kept for the whole model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from paying import layers_cost_everything
from tiny_folder import tiny_folder

import skipstone
from skipstone.bench.check import CheckSpec, References, run_check
from skipstone.errors import PlanError, UsageError
from skipstone.text.in_order import in_order
from skipstone.text.language_model import LanguageModel

LABEL = "early exit at layer 1 of 4"
ASKED: dict[str, Any] = {"max_new_tokens": 8, "temperature": 1.0, "seed": 3, "eos_token_id": []}
SEARCHES = "skip:budget=1,loan=1000,head=full"


@pytest.fixture(scope="module")
def early(folder: Path) -> LanguageModel:
    return load(folder, 1)


def load(folder: Path, layer: int | None, said: list[str] | None = None, **where: Any) -> LanguageModel:
    tell = (said if said is not None else []).append
    return skipstone.load(folder, early_exit=layer, dtype="float64", progress=tell, **where)


def recording(folder: Path, exits: list[int], to: Path) -> Path:
    """A copy whose settings record trained exits."""
    copied = Path(shutil.copytree(folder, to))
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "skipstone_exits": exits}))
    return copied


def test_the_whole_model_speaks_unless_asked_otherwise(model: LanguageModel, folder: Path) -> None:
    assert model.lossy == model.generate("the", **ASKED).lossy == load(folder, None).lossy == ""
    assert model.network.num_layers == 4
    assert not any("lossy" in note for note in model.notes)
    assert "lossy" not in repr(model)
    assert model.name == str(folder)


def test_a_text_and_every_piece_of_it_are_labelled(early: LanguageModel) -> None:
    pieces = list(early.stream("the", **ASKED))
    assert {piece.lossy for piece in pieces} == {LABEL}
    generation = pieces[-1].generation
    assert generation is not None
    assert generation.lossy == generation.summary.lossy == generation.to_json()["lossy"] == LABEL
    assert LABEL in repr(generation)


def test_all_texts_of_a_batch_are_labelled(early: LanguageModel) -> None:
    texts = early.generate_batch(["the", "and"], num_return_sequences=2, **ASKED)
    assert [text.lossy for text in texts] == [LABEL] * 4
    pieces = in_order(early.stream_batch(["the", "and"], **ASKED))
    assert {piece.lossy for piece in pieces} == {LABEL}


def test_a_text_cut_short_is_labelled(early: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("skipstone.engine.Engine.step", interrupted)
    stream = early.stream("the", **ASKED)
    cut = next(stream)
    assert cut.generation is not None
    assert cut.lossy == cut.generation.lossy == LABEL


def test_json_of_the_whole_models_text_says_that_nothing_is_lost(model: LanguageModel) -> None:
    assert model.generate("the", **ASKED).to_json()["lossy"] == ""


def test_the_model_says_it_in_its_name_its_notes_and_where_it_is_shown(early: LanguageModel, folder: Path) -> None:
    assert early.lossy == LABEL
    assert early.name == f"{folder} (lossy: {LABEL})"
    assert f"lossy: {LABEL}; texts are not those of the whole model" in early.notes
    assert f"(lossy: {LABEL}): 1 layers, float64 on cpu" in repr(early)


def test_it_is_told_when_the_model_is_loaded(folder: Path) -> None:
    said: list[str] = []
    load(folder, 2, said)
    assert [line for line in said if "lossy: early exit at layer 2 of 4" in line]
    assert "exit 2 of 4 layers; no trained exits are recorded" in said


def test_recorded_exits_are_told(folder: Path, tmp_path: Path) -> None:
    copied, said = recording(folder, [2, 3], tmp_path / "copied"), list[str]()
    assert load(copied, 2, said).loaded.exits == (2, 3)
    assert "exit 2 of 4 layers; trained exits: 2, 3" in said
    with pytest.raises(PlanError, match=r"early_exit=4 .* use 1 to 3 \(trained exits: 2, 3\)"):
        load(copied, 4)


@pytest.mark.parametrize("layer", [0, -2, 1.0, "1", True])
def test_a_slip_of_the_pen_is_told_before_anything_is_loaded(layer: Any) -> None:
    with pytest.raises(UsageError, match="early_exit="):
        skipstone.load("/no/such/folder", early_exit=layer)


def test_drafters_change_nothing_of_its_text(folder: Path) -> None:
    early = load(folder, 3)
    plain = early.generate("the and the", **ASKED).tokens
    for drafter in ("ngram:min=1", "exit:layer=1", "skip:attn=1", "skip"):
        drafted = early.generate("the and the", drafter=drafter, **ASKED)
        assert (drafted.tokens, drafted.lossy) == (plain, "early exit at layer 3 of 4")


def test_exact_mode_is_labelled_too(folder: Path) -> None:
    try:
        exact = skipstone.load(folder, early_exit=1, exact=True, progress=lambda _: None)
    except UsageError as error:
        pytest.skip(f"this machine's kernels: {error}")
    assert exact.generate("the", **ASKED).lossy == exact.lossy == LABEL


def test_an_engine_of_it_is_labelled(early: LanguageModel) -> None:
    assert early.engine(capacity=40).lossy == LABEL


def test_costs_of_the_whole_model_are_neither_used_nor_overwritten(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers_cost_everything(monkeypatch)
    kept: list[int] = []
    for layer in (None, 2, 3, None):
        costs = load(folder, layer, cache=tmp_path).costs
        assert costs is not None
        assert costs.table.layers == (layer or 4)
        kept.append(len(list((tmp_path / "costs").glob("*.json"))))
    assert kept == [1, 2, 3, 3]


def test_plans_of_the_whole_model_are_neither_used_nor_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers_cost_everything(monkeypatch)
    deep = tiny_folder(tmp_path / "deep", layers=6)
    found: dict[str, bytes] = {}
    for layer in (None, 5, 4):
        model, said = load(deep, layer, cache=tmp_path / "cache"), list[str]()
        model.generate("the and the", drafter=SEARCHES, max_new_tokens=160, do_sample=False)
        now = {str(file): file.read_bytes() for file in (tmp_path / "cache" / "plans").glob("*.json")}
        assert not said
        assert now
        assert (model.plans is None) == (layer is not None)
        assert now == (found := found or now)


def test_what_checks_texts_of_the_whole_model_refuses_it(early: LanguageModel) -> None:
    with pytest.raises(UsageError, match=rf"lossy: {LABEL}.* compare it loaded without early_exit"):
        run_check(early, ["the"], CheckSpec(), lambda report: None)
    with pytest.raises(UsageError, match="without early_exit"):
        References(early, "transformers")
