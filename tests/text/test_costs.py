"""What steps cost is measured when somebody asks, once, and kept with the model's other files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_folder import tiny_folder

import skipstone
from skipstone.calibrate import measure
from skipstone.errors import UsageError
from skipstone.plan import LayerPlan
from skipstone.store import costs
from skipstone.text.language_model import LanguageModel


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with words enough for a head in parts."""
    return tiny_folder(tmp_path_factory.mktemp("models") / "large", vocab_size=2048)


def model(folder: Path, cache: Path, said: list[str]) -> LanguageModel:
    return skipstone.load(folder, cache=cache, progress=said.append)


def test_a_drafter_that_asks_has_costs_measured_once_and_kept(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "measure", lambda network, budget_s: replace(measure(network, budget_s), spread=1.0))
    said: list[str] = []
    first = model(large, tmp_path, said)
    for _ in range(2):
        first.generate("the", drafter="exit:layer=1", max_new_tokens=4)
    assert sum("measuring what steps cost" in line for line in said) == 1
    assert list((tmp_path / "costs").glob("*.json"))
    again: list[str] = []
    model(large, tmp_path, again).generate("the", drafter="exit:layer=1", max_new_tokens=4)
    assert not any("measuring" in line for line in again)


def test_models_that_are_alike_but_for_their_weights_share_costs_and_no_others_do(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "measure", lambda network, budget_s: replace(measure(network, budget_s), spread=1.0))
    wider = tiny_folder(tmp_path / "models" / "wider", vocab_size=2048, config={"intermediate_size": 96})
    other = tiny_folder(tmp_path / "models" / "other", vocab_size=2048)
    counts = []
    for folder in (large, other, wider):
        assert model(folder, tmp_path, []).costs is not None
        counts.append(len(list((tmp_path / "costs").glob("*.json"))))
    assert counts == [1, 1, 2]


@pytest.mark.parametrize("drafter", ["none", "ngram", "exit:layer=1,head=full", "skip:attn=1,head=64"])
def test_nothing_is_measured_for_drafters_that_do_not_ask(large: Path, tmp_path: Path, drafter: str) -> None:
    said: list[str] = []
    model(large, tmp_path, said).generate("the", drafter=drafter, max_new_tokens=4)
    assert not any("measuring" in line for line in said)


def test_costs_can_be_asked_for_in_code(large: Path, tmp_path: Path) -> None:
    loaded = model(large, tmp_path, [])
    assert loaded.costs is not None
    assert loaded.costs is loaded.costs
    full = LayerPlan.full(loaded.network.num_layers)
    assert 0 < loaded.costs.step_ms(full, nodes=1) < 1000  # milliseconds, of a tiny model


def test_exact_mode_gives_the_text_of_the_model_without_it(large: Path, tmp_path: Path) -> None:
    plain = model(large, tmp_path, []).generate("the and the", max_new_tokens=12)
    try:
        exact = skipstone.load(large, cache=tmp_path, exact=True, progress=lambda _: None)
    except UsageError as error:
        pytest.skip(f"this machine's kernels: {error}")
    for drafter in ("none", "ngram", "exit:layer=1,depth=3"):
        assert exact.generate("the and the", max_new_tokens=12, drafter=drafter).tokens == plain.tokens
