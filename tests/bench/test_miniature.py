"""The recipe in miniature, smaller still: what it does to the exits between, and what to the last layer."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from public_texts import story

from skipstone.bench.miniature import Miniature, Small, recipes, run_miniature
from skipstone.errors import UsageError

SMALL = Small(
    layers=4, hidden=32, heads=2, vocabulary=300, length=64, batch=4, steps=80, learning_rate=5e-3, eval_rows=8
)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("texts") / "stories.jsonl"
    file.write_text("".join(json.dumps({"text": story(number)}) + "\n" for number in range(300)))
    return file


@pytest.fixture(scope="module")
def trained(texts: Path) -> Miniature:
    return run_miniature([texts], SMALL, lambda line: None)


def test_middle_exits_disagree_far_less_with_the_recipe_at_about_the_same_last_loss(trained: Miniature) -> None:
    without, having = trained.without.figures, trained.with_recipe.figures
    assert SMALL.middle == 2
    assert 1 - having.at(2).agreement < 0.5 * (1 - without.at(2).agreement)
    assert having.at(1).agreement > without.at(1).agreement + 0.05
    assert having.last_loss == pytest.approx(without.last_loss, rel=0.1)
    assert having.last_loss < 2  # something was learnt: of 300 tokens it begins with 5.7


def test_the_result_is_a_table_of_figures_and_a_picture(trained: Miniature, tmp_path: Path) -> None:
    trained.save(tmp_path / "new" / "folder")
    told = json.loads((tmp_path / "new" / "folder" / "miniature.json").read_text())
    assert told == trained.to_json()
    assert told["middle_agreement"]["with"] == trained.with_recipe.figures.at(2).agreement
    assert [len(exits) for exits in told["exits"].values()] == [4, 4]
    picture = (tmp_path / "new" / "folder" / "miniature.svg").read_text()
    assert sum(each.tag.endswith("polyline") for each in ElementTree.fromstring(picture)) == 2
    assert "without the recipe" in picture


def test_both_are_trained_alike_but_for_the_recipe(texts: Path, tmp_path: Path) -> None:
    both = recipes([texts], SMALL, tmp_path / "model", tmp_path)
    without, having = both["without"].to_json(), both["with"].to_json()
    unlike = {name: (without[name], having[name]) for name in having if without[name] != having[name]}
    assert unlike.pop("output") == (str(tmp_path / "without"), str(tmp_path / "with"))
    assert unlike == {"p_max": (0, having["p_max"]), "e_scale": (0, having["e_scale"])}
    assert having["scratch"]
    assert having["curriculum"] == "rotational"


def test_what_holds_no_texts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chats.jsonl").write_text('{"prompt": "why", "response": "so"}\n')
    with pytest.raises(UsageError, match=r"chats.jsonl: no plain texts"):
        run_miniature([tmp_path / "chats.jsonl"], SMALL, lambda line: None)
