"""The default searcher, on objectives that are known."""

from dataclasses import dataclass, field

import pytest

from skipstone.plan import LayerPlan
from skipstone.search.guided import GuidedSearcher
from skipstone.search.searcher import Trial
from skipstone.search.sublayer import Sublayer, plan_without, searchable, skipped_by

L = 60


@dataclass
class Objective:
    """Each sublayer saves 1 of 2L; one that is needed costs the acceptance dearly. Some needed ones look idle."""

    idle: frozenset[Sublayer]
    misranked: int = 0
    rankings: int = field(default=0)

    def ranked(self, plan: LayerPlan) -> list[Sublayer]:
        self.rankings += 1
        parts = [part for part in searchable(L) if part not in skipped_by(plan)]
        wrong = sorted(set(searchable(L)) - self.idle)[: self.misranked]
        return sorted(parts, key=lambda part: (part not in self.idle and part not in wrong, part))

    def trial(self, plan: LayerPlan) -> Trial:
        gone = skipped_by(plan)
        acceptance = 0.98 * 0.6 ** len(gone - self.idle)
        c = 1 - len(gone) / (2 * L)
        speed = max(sum(acceptance**i for i in range(k + 1)) / (k * c + 1) for k in range(1, 9))
        return Trial(plan, round(32 * acceptance), 32, speed)


def _search(objective: Objective, most: int) -> GuidedSearcher:
    searcher = GuidedSearcher(L)
    for _ in range(most):
        plan = searcher.ask(objective)
        if plan is None:
            break
        searcher.tell(objective.trial(plan))
    return searcher


def _idle(count: int, start: int = 1) -> frozenset[Sublayer]:
    return frozenset(searchable(L)[start::2][:count])


@pytest.mark.parametrize("count", [4, 15, 30, 50])
def test_where_the_ranking_is_right_a_few_looks_find_nearly_the_best(count: int):
    objective = Objective(_idle(count))
    best = objective.trial(plan_without(L, objective.idle)).speed
    found = _search(objective, 14).best
    assert found is not None
    assert found.speed >= 0.95 * best


def test_where_the_ranking_errs_changes_mend_it():
    objective = Objective(_idle(30), misranked=2)
    best = objective.trial(plan_without(L, objective.idle)).speed
    looked, changed = _search(objective, 14).best, _search(objective, 200).best
    assert looked is not None
    assert changed is not None
    assert changed.speed > looked.speed
    assert changed.speed >= 0.95 * best


def test_it_comes_to_an_end_and_never_tries_a_plan_twice():
    objective, plans = Objective(_idle(20), misranked=1), []
    searcher = GuidedSearcher(L)
    while (plan := searcher.ask(objective)) is not None:
        plans.append(plan)
        searcher.tell(objective.trial(plan))
        assert len(plans) < 300
    assert len(plans) == len(set(plans))


def test_first_and_last_layer_are_never_left_out():
    objective = Objective(frozenset(searchable(L)))
    searcher = _search(objective, 50)
    assert searcher.best is not None
    assert not {0, L - 1} & (searcher.best.plan.skip_attn | searcher.best.plan.skip_mlp)


def test_a_model_of_three_layers_has_two_sublayers_to_try():
    searcher, tried = GuidedSearcher(3), []

    @dataclass
    class Both:
        def ranked(self, plan: LayerPlan) -> list[Sublayer]:
            return [part for part in searchable(3) if part not in skipped_by(plan)]

    while (plan := searcher.ask(Both())) is not None:
        tried.append(plan)
        searcher.tell(Trial(plan, 1, 32, 0.5))
    assert 1 <= len(tried) <= 4


def test_a_plan_that_proved_to_be_luck_is_not_gone_on_from():
    searcher = GuidedSearcher(L)
    good, lucky = (plan_without(L, searchable(L)[:count]) for count in (4, 8))
    searcher.tell(Trial(good, 30, 32, 1.2))
    searcher.tell(Trial(lucky, 32, 32, 1.4))
    assert searcher.best is not None
    assert searcher.best.plan == lucky
    searcher.tell(Trial(lucky, 32, 32, 1.1))
    assert searcher.best.plan == good
