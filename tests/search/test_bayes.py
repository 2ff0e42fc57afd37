"""Random plans, and what a Gaussian process makes of them."""

import sys

import numpy
import pytest

from skipstone.errors import UsageError
from skipstone.plan import LayerPlan
from skipstone.search.bayes import BayesSearcher, GaussianProcess
from skipstone.search.random_choice import RandomSearcher
from skipstone.search.searcher import NoSignals, Trial
from skipstone.search.sublayer import Sublayer, skipped_by

LAYERS, COUNT, OF = 8, 5, 32
IDLE = {Sublayer(1, "attn"), Sublayer(2, "mlp"), Sublayer(4, "attn"), Sublayer(5, "attn"), Sublayer(6, "mlp")}


def _judged(plan: LayerPlan) -> Trial:
    """The more of the idle sublayers are left out, the better."""
    hits = OF * len(skipped_by(plan) & IDLE) // COUNT
    return Trial(plan, hits, OF, 0.0)


def _tried(searcher: BayesSearcher, times: int) -> list[Trial]:
    trials = []
    for _ in range(times):
        trials.append(_judged(searcher.ask(NoSignals())))
        searcher.tell(trials[-1])
    return trials


def test_only_every_nth_plan_is_not_the_random_one():
    trials = _tried(BayesSearcher(LAYERS, COUNT, every=3, seed=3), 6)
    random = RandomSearcher(LAYERS, COUNT, 3)
    drawn = [random.ask(NoSignals()) for _ in range(4)]
    assert [trial.plan for turn, trial in enumerate(trials, 1) if turn % 3] == drawn


def test_where_no_process_fits_what_was_seen_a_random_plan_takes_its_place(monkeypatch: pytest.MonkeyPatch):
    def suggest(self: GaussianProcess) -> list[float]:
        raise numpy.linalg.LinAlgError("11-th leading minor of the array is not positive definite")

    monkeypatch.setattr(GaussianProcess, "suggest", suggest)
    trials = _tried(BayesSearcher(LAYERS, COUNT, every=2, seed=3), 6)
    random = RandomSearcher(LAYERS, COUNT, 3)
    assert [trial.plan for trial in trials] == [random.ask(NoSignals()) for _ in range(6)]


def test_what_it_concludes_is_better_than_chance():
    trials = _tried(BayesSearcher(LAYERS, COUNT, every=4), 28)
    concluded = [trial.matchness for turn, trial in enumerate(trials, 1) if turn % 4 == 0]
    drawn = [trial.matchness for turn, trial in enumerate(trials, 1) if turn % 4]
    assert sum(concluded) / len(concluded) > sum(drawn) / len(drawn) + 0.15
    assert {len(skipped_by(trial.plan)) for trial in trials} == {COUNT}


def test_a_plan_may_be_tried_again_without_a_word_on_the_terminal(capsys: pytest.CaptureFixture[str]):
    searcher = BayesSearcher(LAYERS, COUNT, every=3)
    plan = searcher.ask(NoSignals())
    for hits in (10, 20, 10):
        searcher.tell(Trial(plan, hits, OF, 0.0))
    searcher.ask(NoSignals())
    assert searcher.ask(NoSignals()) is not None
    assert capsys.readouterr() == ("", "")


def test_the_same_seed_asks_for_the_same_plans_and_nobody_elses_random_numbers_are_touched():
    before = numpy.random.get_state()[1].tolist()
    once, again = (_tried(BayesSearcher(LAYERS, COUNT, every=3, seed=-7), 6) for _ in range(2))
    assert once == again
    assert numpy.random.get_state()[1].tolist() == before


def test_what_the_unknown_is_worth_and_how_noisy_a_matchness_is_reach_the_library():
    process = BayesSearcher(LAYERS, COUNT, kappa=0.5, alpha=0.25)._process
    assert process._optimizer.acquisition_function.kappa == 0.5
    assert process._optimizer._gp.alpha == 0.25


@pytest.mark.parametrize(("kappa", "alpha"), [(0.0, 1e-2), (100.0, 1e-12), (2.5, 10.0)])
def test_odd_values_of_both_search_all_the_same(kappa: float, alpha: float):
    searcher = BayesSearcher(LAYERS, COUNT, every=3, kappa=kappa, alpha=alpha)
    plan = searcher.ask(NoSignals())
    for _ in range(2):
        searcher.tell(_judged(plan))  # the same plan again: points that hardly differ
    assert {len(skipped_by(trial.plan)) for trial in _tried(searcher, 6)} == {COUNT}


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "bayes_opt", None)
    with pytest.raises(UsageError, match=r"pip install \"skipstone\[search\]\".*beta=0"):
        BayesSearcher(LAYERS, COUNT)
