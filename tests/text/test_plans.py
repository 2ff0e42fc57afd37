"""A plan found while generating is there for the next process, by model and task."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from paying import layers_cost_everything
from tiny_folder import tiny_folder

import skipstone
from skipstone.errors import UsageError
from skipstone.plan import LayerPlan
from skipstone.search.found import Found, Warm
from skipstone.search.preset import ExitPreset
from skipstone.text.language_model import LanguageModel
from skipstone.text.tuning import Tuning

LATE = LayerPlan.skipping(6, [4], [4])
DRAFTER = "skip:budget=1,loan=1000,head=full"


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose later layers do little."""
    return tiny_folder(tmp_path_factory.mktemp("models") / "deep", layers=6)


@pytest.fixture
def load(deep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``load(said)``: the model as a new process would have it."""
    layers_cost_everything(monkeypatch)
    return lambda said=None: skipstone.load(
        deep, cache=tmp_path / "cache", progress=(said if said is not None else []).append, dtype="float64"
    )


def generate(model: LanguageModel, drafter: str = DRAFTER, tokens: int = 160) -> list[int]:
    return model.generate("the and the", drafter=drafter, max_new_tokens=tokens, do_sample=False).tokens


def begun_with(model: LanguageModel, task: str = "") -> Warm | None:
    assert model.plans is not None
    return model.plans.get(task)


class Plans:
    """Kept in memory; counts how often it is asked."""

    def __init__(self, warm: Warm | None = None) -> None:
        self.warm, self.asked, self.got = warm, 0, []

    def get(self, task: str) -> Warm | None:
        self.asked += 1
        return self.warm

    def put(self, task: str, found: Found) -> None:
        self.got.append(found)

    def get_exit(self, task: str) -> ExitPreset | None:
        return ExitPreset(3, 2, 2, "40") if task == "stories" else None


def warm_model(load: Any, warm: Warm | None) -> tuple[LanguageModel, Plans]:
    plans, loaded = Plans(warm), load()
    return LanguageModel(loaded.loaded, "none", lambda: loaded.costs.table, plans=plans), plans


def test_a_preset_is_drafted_with_by_those_who_ask_for_its_task(load: Any) -> None:
    model, _ = warm_model(load, None)
    drafter = model.make("exit:task=stories")
    assert (drafter.plan, drafter.options.depth, drafter.options.width) == (LayerPlan.until(3), 2, 2)
    assert drafter.head.size == 40
    assert model.make("exit:task=sums").dynamic is not None
    assert any("drafting as its preset says, 2 tokens with exit 3" in line for line in model.told())
    assert any("exit:task=sums: no preset is kept" in line for line in model.told())
    assert model.make("exit").dynamic is not None
    assert generate(model, "exit:task=stories", 40) == generate(model, "none", 40)


def test_a_preset_and_a_layer_of_ones_own_exclude_each_other(load: Any) -> None:
    with pytest.raises(UsageError, match="leave out layer=2"):
        load().generate("the", drafter="exit:task=stories,layer=2")


def test_a_plan_found_is_kept_and_tried_first_by_the_next_process(load: Any) -> None:
    first = load()
    tokens = generate(first)
    kept = begun_with(first)
    assert kept is not None
    second = load()
    drafter = second.make(DRAFTER)
    assert drafter.tuned.tuner.warm == kept
    assert generate(second) == tokens == generate(second, "none")
    trial = next(event for event in drafter.tuned.tuner.events if event.what == "trial")
    assert trial.plan == kept.plan


def test_a_settled_plan_that_pays_ends_the_search_with_one_trial(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = _found(load)
    monkeypatch.setattr("skipstone.search.tuner.replay", lambda state, window, plan: len(window))
    model, _ = warm_model(load, Warm(kept.plan, settled=True))
    drafter = model.make(DRAFTER)
    generate(model, tokens=60)
    assert [event.what for event in drafter.tuned.tuner.events][:3] == ["trial", "adopted", "settled"]


def test_a_kept_plan_that_does_not_pay_is_one_lost_trial(load: Any) -> None:
    useless = LayerPlan.skipping(6, [0], [0])  # the one layer that says much
    model, plans = warm_model(load, Warm(useless, settled=True))
    drafter = model.make(DRAFTER)
    generate(model)
    first, second = [event for event in drafter.tuned.tuner.events if event.what == "trial"][:2]
    assert first.plan == useless
    assert second.plan != useless
    assert plans.got
    assert plans.got[-1].plan != useless


def _found(load: Any) -> Warm:
    model = load()
    generate(model)
    kept = begun_with(model)
    assert kept is not None
    return kept


def test_each_task_has_a_plan_of_its_own(load: Any) -> None:
    model = load()
    generate(model, f"{DRAFTER},task=stories")
    assert begun_with(model, "stories") is not None
    assert begun_with(model) is None


def test_with_keep_false_nothing_is_read_or_written(load: Any) -> None:
    model, plans = warm_model(load, None)
    generate(model, f"{DRAFTER},keep=false")
    assert plans.asked == 0
    assert not plans.got


def test_other_drafters_keep_no_plans(load: Any) -> None:
    model, plans = warm_model(load, None)
    for drafter in ("ngram", "skip:attn=2"):
        generate(model, drafter, 8)
    assert plans.asked == 0
    assert not plans.got


def test_a_cache_that_cannot_be_written_stops_no_generation(load: Any, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "plans").write_text("in the way")
    said: list[str] = []
    model = load(said)
    assert generate(model) == generate(model, "none")
    assert sum("not kept" in line for line in said) == 1


@pytest.mark.parametrize("task", ["a\nb", "\x00"])
def test_a_task_that_is_no_label_is_refused(load: Any, task: str) -> None:
    with pytest.raises(UsageError, match="no label"):
        load().generate("the", drafter=f"skip:task={task}")


def test_a_model_tells_what_is_drafted_with_or_why_nothing_is(load: Any) -> None:
    model = load()
    assert model.told() == []
    generate(model, tokens=2)
    assert model.told() == [f"{DRAFTER}: not drafting: no text so far was long enough to try anything on (32 tokens)"]
    generate(model)
    (told,) = model.told()
    assert told.startswith(f"{DRAFTER}: drafting without ")


OTHERS = LayerPlan.skipping(6, [2], [2])


@pytest.mark.parametrize(
    ("in_use", "kept"),
    [
        ([LATE, None], None),  # luck on one text
        ([LATE, LATE, None], LATE),  # of another kind
        ([LATE, None, OTHERS], OTHERS),
        ([LATE, LATE, OTHERS, None], None),
    ],
)
def test_a_plan_that_was_dropped_on_the_next_text_was_luck(
    load: Any, monkeypatch: pytest.MonkeyPatch, in_use: list[LayerPlan | None], kept: LayerPlan | None
) -> None:
    tuning, texts = scripted(load, monkeypatch, in_use, searching=True)
    for _ in tuning.run(texts):
        pass
    assert (tuning.found and tuning.found.plan) == kept


@pytest.mark.parametrize(("in_use", "texts"), [([LATE] * 9, 4), ([LATE, OTHERS, *[LATE] * 9], 6), ([None] * 9, 0)])
def test_a_search_that_has_settled_ends_once_its_plan_has_served_three_texts_more(
    load: Any, monkeypatch: pytest.MonkeyPatch, in_use: list[LayerPlan | None], texts: int
) -> None:
    tuning, prompts = scripted(load, monkeypatch, in_use, searching=False)
    assert list(tuning.run(prompts))[-1] == texts


def scripted(
    load: Any, monkeypatch: pytest.MonkeyPatch, in_use: list[LayerPlan | None], searching: bool
) -> tuple[Tuning, list[str]]:
    """A search that drafts each text with a plan of the script; None: it has dropped what was in use."""
    model = load()
    tuning = Tuning(model, "x", 40)
    tuner = SimpleNamespace(found=None, plan=None, drops=0, events=[], best=None, searching=searching)
    monkeypatch.setattr(Tuning, "tuner", tuner)
    plans = iter(in_use)

    def stream(prompt: str, **how: Any) -> Any:
        tuner.plan = next(plans)
        tuner.drops += tuner.plan is None
        tuner.found = None if tuner.plan is None else Found(tuner.plan, 3, 1.2, 0.9, 0.9, 100, settled=False)
        yield from "xyz"

    monkeypatch.setattr(model, "stream", stream)
    return tuning, ["the"] * len(in_use)
