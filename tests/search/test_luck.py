"""Windows are short and trials many, so some plan will look better than it is: what that does to the plan in use."""

from __future__ import annotations

import random
from statistics import mean

import pytest
from simulated import Listed, Objective, Simulation

from skipstone.plan import LayerPlan
from skipstone.search.book import Tally
from skipstone.search.budget import Budget
from skipstone.search.contest import Contest
from skipstone.search.guided import GuidedSearcher
from skipstone.search.in_use import InUse
from skipstone.search.searcher import Trial
from skipstone.search.sublayer import Sublayer, plan_without

LAYERS = 16
GOOD = [Sublayer(layer, "mlp") for layer in range(1, 10)]
BAD = [Sublayer(layer, "mlp") for layer in range(10, 15)]
BEST = plan_without(LAYERS, GOOD)
WORSE = [plan_without(LAYERS, {*GOOD, bad} - {good}) for good in GOOD for bad in BAD]


def _objective(seed: int, missed: float) -> Objective:
    """Without the good nine 93 % are accepted; one of the bad ones in a good one's place costs ``missed`` of these."""
    parts = [Sublayer(layer, kind) for layer in range(1, LAYERS - 1) for kind in ("attn", "mlp")]
    shares = dict.fromkeys(parts, 0.4) | dict.fromkeys(GOOD, 0.008) | dict.fromkeys(BAD, missed)
    return Objective(LAYERS, shares, random.Random(seed))


def _ended(patch: pytest.MonkeyPatch, objective: Objective, plans: list[LayerPlan]) -> Simulation:
    return Simulation.of(patch, objective, Listed(plans)).run(len(plans) + 1, steps=400)


def _kept(patch: pytest.MonkeyPatch, missed: float, seeds: int) -> list[float]:
    """The speed in the end over that of the best plan, which was there first, before twice 45 that are worse."""
    ended = [_ended(patch, _objective(seed, missed), [BEST, *WORSE, *WORSE]) for seed in range(seeds)]
    return [sim.objective.speed(sim.tuner.plan) / sim.objective.speed(BEST) for sim in ended]


def test_a_lucky_window_does_not_take_a_much_better_plans_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ninety plans 15 % slower, several have a window that promises more than the best plan."""
    kept = _kept(monkeypatch, missed=0.2, seeds=20)
    assert kept == pytest.approx([1.0] * 20)


def test_a_plan_hardly_worse_seldom_does(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = _kept(monkeypatch, missed=0.12, seeds=20)
    assert sum(share < 1 for share in kept) <= 4
    assert mean(kept) > 0.97


def test_both_plans_are_judged_on_the_same_fresh_text(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = _ended(monkeypatch, _objective(3, 0.12), [BEST, *WORSE])
    again = [event for event in sim.tuner.events if event.what == "again"]
    trials = {event.plan: event for event in sim.tuner.events if event.what == "trial"}
    assert again
    for mine, theirs in zip(again[::2], again[1::2], strict=True):
        assert (mine.tokens, mine.of) == (theirs.tokens, theirs.of)
        assert mine.plan != theirs.plan
        assert mine.tokens >= trials[mine.plan].tokens + mine.of  # written since the challenger's trial


def test_a_better_plan_does_take_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is 12 % faster; a window of 32 tokens does not always show that."""
    taken = [_ended(monkeypatch, _objective(seed, 0.12), [WORSE[0], BEST]).tuner.plan == BEST for seed in range(30)]
    assert sum(taken) >= 18


def test_a_search_on_noisy_windows_ends_near_the_best_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = []
    for seed in range(16):
        objective = Objective.drawn(LAYERS, seed)
        sim = Simulation.of(monkeypatch, objective, GuidedSearcher(LAYERS)).run(40)
        reached.append(objective.speed(sim.tuner.plan) / _best_speed(objective))
    assert mean(reached) > 0.92
    assert min(reached) > 0.8


def _best_speed(objective: Objective) -> float:
    """With the k least missed sublayers for their price left out, k as is best."""
    order = sorted(objective.missed, key=lambda part: objective.missed[part] / (3 if part.kind == "mlp" else 1))
    return max(objective.speed(plan_without(LAYERS, order[:count])) for count in range(1, len(order) + 1))


def test_a_plan_that_does_worse_than_the_one_before_it_gives_it_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation.of(monkeypatch, _objective(0, 0.12), Listed([]))
    before, lucky = (InUse.taken_up(Trial(plan, 32, 32, 1.3), 0.98, 0) for plan in (BEST, WORSE[0]))
    before.observe(60, 62)
    sim.tuner.use, sim.tuner.before = lucky, before
    lucky.observe(7, 7)
    assert sim.tuner.choose(sim.state()).plan == WORSE[0]  # too little is known yet
    for _ in range(12):
        lucky.observe(2, 3)
    assert sim.tuner.choose(sim.state()).plan == BEST
    assert sim.tuner.before is None
    assert [event.what for event in sim.tuner.events] == ["returned"]


def test_a_plan_that_fails_at_once_does_not_take_the_proved_one_before_it_down(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation.of(monkeypatch, _objective(0, 0.12), Listed([]))
    before, failed = (InUse.taken_up(Trial(plan, 32, 32, 1.3), 0.98, 0) for plan in (BEST, WORSE[0]))
    before.observe(60, 62)
    sim.tuner.use, sim.tuner.before = failed, before
    failed.observe(0, 40)
    assert sim.tuner.choose(sim.state()).plan == BEST
    assert (sim.tuner.before, sim.tuner.drops) == (None, 0)
    before.observe(0, 60)  # the text has changed after all
    assert sim.tuner.choose(sim.state()) is None
    assert sim.tuner.drops == 1


def test_a_plan_that_showed_nothing_takes_no_proved_ones_place_as_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sim = Simulation.of(monkeypatch, _objective(0, 0.12), Listed([]))
    proved, unproved = (InUse.taken_up(Trial(plan, 32, 32, 1.3), 0.98, 0) for plan in (BEST, WORSE[0]))
    proved.observe(60, 62)
    sim.tuner.use, sim.tuner.before = unproved, proved
    sim.tuner._adopt(Trial(WORSE[1], 32, 32, 1.4), 0.99)
    assert sim.tuner.before is proved


def test_a_plan_is_worth_keeping_once_its_own_drafts_have_shown_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation.of(monkeypatch, _objective(0, 0.12), Listed([BEST]))
    while sim.tuner.plan is None:
        sim.step()
    assert sim.tuner.found is None
    while sim.tuner.found is None:
        sim.step()
    assert sim.tuner.use is not None
    assert sim.tuner.use.judged >= 32


def test_while_little_is_known_for_a_plan_its_drafts_stay_short(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation.of(monkeypatch, _objective(0, 0.12), Listed([]))
    sim.tuner.use = InUse.taken_up(Trial(BEST, 32, 32, 1.3), 0.98, 0)
    assert sim.tuner.choose(sim.state()).deepest == 16
    sim.tuner.use.observe(0, 7)
    sim.tuner.use.recent = Tally.of_share(0.2, 32)
    assert sim.tuner.choose(sim.state()).deepest == 2


def test_what_a_narrow_head_does_not_know_lowers_what_a_trial_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = []
    for coverage in (1.0, 0.7):
        sim = Simulation.of(monkeypatch, _objective(0, 0.12), Listed([BEST]))
        sim.tuner.coverage = coverage
        while not sim.tuner.trials:
            sim.step()
        assert sim.tuner.best is not None
        speeds.append(sim.tuner.best.speed)
    assert speeds[1] < speeds[0]


@pytest.mark.parametrize(("judged", "lent"), [(300, True), (100, False)])
def test_after_a_plan_that_went_at_once_nothing_is_lent(
    monkeypatch: pytest.MonkeyPatch, judged: int, lent: bool
) -> None:
    """Where nothing pays, lucky windows must not cost a loan each."""
    sim = Simulation.of(monkeypatch, _objective(0, 0.12), Listed([]))
    sim.tuner.budget.ran_ms = 7.0  # the share is 1
    sim.tuner.use = InUse.taken_up(Trial(BEST, 32, 32, 1.3), 0.98, 0)
    sim.tuner.use.observe(0, judged)
    assert sim.tuner.choose(sim.state()) is None
    assert sim.tuner.drops
    sim.tuner.tokens += sim.tuner.options.window
    sim.tuner.work(sim.state(), {})
    assert sim.tuner.budget.lent_at == (7.0 if lent else None)


@pytest.mark.parametrize("place", [0, 5])
def test_nothing_is_borrowed_any_more_once_eight_plans_in_a_row_were_no_better(
    monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """Text is slower while it is looked for a plan; a share of the time is still given to that."""
    bad = [plan_without(LAYERS, [bad]) for bad in BAD]
    sim = Simulation.of(monkeypatch, _objective(0, 0.6), Listed([*bad[:place], BEST, *(bad * 8)]))
    sim.tuner.budget.share = 1e-9
    for _ in range(100):
        sim.step()
    assert sim.tuner.plan == BEST
    assert sim.trials() == place + 1 + 8


def test_a_second_loan_is_no_larger_than_what_of_the_first_was_repaid() -> None:
    budget = Budget(share=0.01, spent_ms=80.0, ran_ms=3_000.0)
    budget.lend()
    assert budget.affords(29, loan_ms=80)
    assert not budget.affords(31, loan_ms=80)


def test_a_plan_that_comes_back_has_no_contest_of_another_to_fight(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation.of(monkeypatch, _objective(0, 0.12), Listed([]))
    before, lucky = (InUse.taken_up(Trial(plan, 32, 32, 1.3), 0.98, 0) for plan in (BEST, WORSE[0]))
    before.observe(60, 62)
    lucky.observe(27, 39)
    sim.tuner.use, sim.tuner.before = lucky, before
    sim.tuner.contest = Contest.begun(Trial(WORSE[1], 32, 32, 1.4), 0.9, 0.9, sim.state())
    assert sim.tuner.choose(sim.state()).plan == BEST
    assert sim.tuner.contest is None


def test_a_contest_is_over_when_the_plan_in_use_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    objective = _objective(0, 0.12)
    sim = Simulation.of(monkeypatch, objective, Listed([BEST, *WORSE]))
    while sim.tuner.contest is None:
        sim.step()
    objective.missed = dict.fromkeys(objective.missed, 0.9)  # another text, on which no draft is right
    while sim.tuner.plan is not None:
        sim.step()
    assert sim.tuner.contest is None


def test_a_plan_whose_cycles_take_too_long_rests_and_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation.of(monkeypatch, _objective(0, 0.12), Listed([]))
    sim.tuner.use = InUse.taken_up(Trial(BEST, 32, 32, 1.3), 0.98, 0)
    assert sim.tuner.choose(sim.state()) is not None
    sim.tuner.pace.slower = 1.9
    sim.tuner.tokens += 128  # prices are looked up anew
    assert sim.tuner.choose(sim.state()) is None
    assert sim.tuner.plan == BEST
    for _ in range(4096):
        sim.tuner.pace.rest()
    sim.tuner.tokens += 128
    assert sim.tuner.choose(sim.state()) is not None
