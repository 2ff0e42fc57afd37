"""SWIFT's optimisation as the paper has it: when it tries, what it keeps, when it ends."""

import sys
from types import SimpleNamespace

import pytest

from skipstone.errors import UsageError
from skipstone.plan import LayerPlan
from skipstone.search.paper import PaperOptions, PaperTuner, uniform_at
from skipstone.search.sublayer import count_at, skipped_by

LAYERS = 12


def _state(tokens: int, prompt: int = 3) -> SimpleNamespace:
    """All that the tuner looks at of a text of ``tokens``."""
    cache = SimpleNamespace(prompt_lengths=[prompt])
    return SimpleNamespace(rows=(0,), history=(range(tokens),), cache=cache, limits=SimpleNamespace(nodes=64))


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch):
    """Takes a list of hits, one a candidate; the last one again once it is used up."""

    def given(*hits: int) -> None:
        left = list(hits)
        monkeypatch.setattr(
            "skipstone.search.paper.replay", lambda *_: left.pop(0) if len(left) > 1 else left[0], raising=True
        )

    return given


def _tuner(**options: object) -> PaperTuner:
    return PaperTuner(LAYERS, PaperOptions(**{"every": 0, **options}))


def _trials(tuner: PaperTuner) -> list[int]:
    return [event.hits for event in tuner.events if event.what == "trial"]


def _work(tuner: PaperTuner, steps: int) -> None:
    for _ in range(steps):
        tuner.work(_state(60))


@pytest.mark.parametrize("layers", [4, 5, 12, 31, 80])
@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.45, 0.5, 0.7, 0.9])
def test_the_first_plan_is_every_other_layer_cut_or_filled_to_the_share_asked_for(layers: int, ratio: float):
    count = count_at(layers, ratio)
    gone, every_other = skipped_by(uniform_at(layers, count)), skipped_by(LayerPlan.uniform(layers))
    assert len(gone) == count
    assert gone <= every_other or gone >= every_other


def test_nothing_is_tried_before_a_text_has_a_window_of_verified_tokens(judge):
    judge(5)
    tuner = _tuner(window=8)
    assert tuner.work(_state(3 + 7)) == 0.0
    assert not tuner.events
    tuner.work(_state(3 + 8))
    assert _trials(tuner) == [5]


def test_the_plan_it_starts_with_is_tried_first_and_the_best_one_is_kept(judge):
    judge(10, 4, 12, 12, 9)
    tuner = _tuner()
    start = tuner.plan
    _work(tuner, 5)
    plans = [event.plan for event in tuner.events if event.what == "trial"]
    assert plans[0] == start
    assert tuner.plan == plans[2]
    assert tuner.best.matchness == 12 / 32
    assert len({len(skipped_by(plan)) for plan in plans}) == 1


@pytest.mark.parametrize(
    ("options", "hits", "tried"),
    [
        ({"candidates": 4}, [1], 4),
        ({"patience": 3}, [5, 6, 6, 2, 6, 7], 5),
        ({"tolerance": 0.9}, [5, 28, 29], 3),
        ({"tolerance": 1.0, "candidates": 2}, [32], 2),
    ],
)
def test_it_ends_by_number_patience_or_a_match_good_enough_and_then_nothing_is_tried(judge, options, hits, tried):
    judge(*hits)
    tuner = _tuner(**options)
    _work(tuner, 12)
    assert len(_trials(tuner)) == tried
    assert not tuner.searching
    assert [event.what for event in tuner.events][-1] == "settled"
    assert tuner.work(_state(60)) == 0.0


def test_it_tells_what_is_drafted_with_how_well_it_matched_and_whether_the_search_goes_on(judge):
    judge(16, 24, 8)
    tuner = _tuner(candidates=3)
    assert tuner.told() == "drafting without 5 attention and 4 MLP sublayers, not tried yet; still searching"
    _work(tuner, 2)
    attn, mlp = len(tuner.plan.skip_attn), len(tuner.plan.skip_mlp)
    what = f"drafting without {attn} attention and {mlp} MLP sublayers, matchness 0.75"
    assert tuner.told() == f"{what}, the best of 2 candidates tried; still searching"
    _work(tuner, 1)
    assert tuner.told() == f"{what}, the best of 3 candidates tried; frozen"


def test_a_model_too_shallow_tells_that_nothing_is_drafted():
    told = PaperTuner(3, PaperOptions()).told()
    assert told == "not drafting: of 3 layers 2 sublayers may be skipped, and r=0.45 of them is none"


def test_the_time_it_takes_is_counted(judge):
    judge(5)
    ticks = iter(range(1000))
    tuner = PaperTuner(LAYERS, PaperOptions(every=0), clock=lambda: float(next(ticks)))
    seconds = tuner.work(_state(60))
    assert seconds > 0
    assert tuner.budget.spent_ms == 1e3 * seconds


@pytest.mark.parametrize(("layers", "ratio"), [(2, 0.9), (3, 0.45), (12, 0.0)])
def test_where_no_sublayer_can_go_there_is_no_plan_and_no_search(layers: int, ratio: float):
    tuner = PaperTuner(layers, PaperOptions(ratio=ratio))
    assert tuner.plan is None
    assert not tuner.searching
    assert tuner.work(_state(60)) == 0.0


def test_random_candidates_alone_need_no_library(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "bayes_opt", None)
    assert _tuner(every=0).searching
    with pytest.raises(UsageError, match="beta=0"):
        _tuner(every=25)


def test_what_the_gaussian_process_assumes_is_given_to_it():
    searcher = _tuner(every=2, kappa=0.5, alpha=0.25)._searcher
    assert (searcher.kappa, searcher.alpha) == (0.5, 0.25)


@pytest.mark.parametrize(
    "options",
    [
        {"ratio": -0.1},
        {"ratio": 0.91},
        {"ratio": float("nan")},
        {"window": 0},
        {"window": 1},
        {"every": -1},
        {"candidates": 0},
        {"patience": 0},
        {"tolerance": 1.1},
        {"tolerance": float("nan")},
        {"kappa": -0.1},
        {"kappa": float("inf")},
        {"kappa": float("nan")},
        {"alpha": 0.0},
        {"alpha": -1e-2},
        {"alpha": float("inf")},
        {"alpha": float("nan")},
    ],
)
def test_constants_that_leave_nothing_to_search_are_refused(options: dict[str, float]):
    with pytest.raises(UsageError):
        PaperOptions(**options)
