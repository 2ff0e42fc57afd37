"""Choices beside drafted tokens, where they are worth verifying."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skipstone.accept import Pick
from skipstone.draft.siblings import Siblings, worth_keeping
from skipstone.draft.skip import SkipDrafter
from skipstone.engine import Engine
from skipstone.plan import LayerPlan
from skipstone.request import Request
from skipstone.search.calibration import Calibration, by_halves
from skipstone.search.in_use import InUse
from skipstone.search.searcher import Trial
from skipstone.telemetry import Summary
from skipstone.testing import plain_text, tiny_network
from skipstone.tree import Verified


def _pick(*probabilities: float) -> Pick:
    rest = 1 - sum(probabilities)
    return Pick(list(range(len(probabilities))), torch.tensor([*probabilities, rest]).log())


def _siblings(node: float = 0.05) -> Siblings:
    """Picks have all their choices from the start."""
    return Siblings(Calibration(by_halves), lambda count: node * count, lambda pick, *_: pick)


def test_a_doubtful_token_has_as_many_choices_beside_it_as_are_worth_a_node():
    widths = _siblings().widths([[_pick(0.5, 0.3, 0.1, 0.01)], [_pick(0.99, 0.005)]], [[1.0], [0.5]], most=9)
    assert widths == (3, 1)


def test_behind_a_doubtful_token_choices_are_worth_less():
    picks = [[_pick(0.5, 0.08)], [_pick(0.5, 0.08)]]
    assert _siblings().widths(picks, [[1.0], [0.5]], most=9) == (2, 1)


def test_no_more_choices_than_there_is_room_for_and_the_likeliest_first():
    picks = [[_pick(0.5, 0.2)], [_pick(0.4, 0.4)]]
    assert _siblings().widths(picks, [[1.0], [0.9]], most=1) == (1, 2)
    assert _siblings().widths(picks, [[1.0], [0.9]], most=0) == (1, 1)


def test_a_row_that_is_at_its_end_has_no_say():
    picks = [[_pick(0.5, 0.3), _pick(0.98, 0.01)]]
    assert _siblings().widths(picks, [[1.0, 1.0]], most=9) == (2,)
    assert _siblings().widths(picks, [[0.0, 1.0]], most=9) == (1,)


def test_choices_that_never_prove_right_are_kept_no_more():
    siblings, picks = _siblings(), [[_pick(0.5, 0.3)]]
    assert siblings.widths(picks, [[1.0]], most=9) == (2,)
    for _ in range(200):
        siblings.learn(Verified(0, [0, 1], [0, 7], {}))
    assert siblings.widths(picks, [[1.0]], most=9) == (1,)


def test_choices_are_believed_as_often_as_they_prove_right():
    siblings, picks = _siblings(node=0.5), [[_pick(0.5, 0.3)]]
    assert siblings.widths(picks, [[1.0]], most=9) == (1,)
    siblings = _siblings(node=0.4)
    siblings.widths(picks, [[1.0]], most=9)
    for _ in range(200):
        siblings.learn(Verified(0, [0, 2], [1, 7], {}))
    assert siblings.widths(picks, [[1.0]], most=9) == (2,)


@given(st.lists(st.floats(0, 1), max_size=9), st.floats(0, 1))
def test_what_is_kept_brings_more_than_it_costs(gains: list[float], node: float):
    gains = sorted(gains, reverse=True)
    kept = worth_keeping(gains, lambda count: node * count)
    assert all(gain >= node for gain in gains[:kept])
    assert all(gain <= node + 1e-9 for gain in gains[kept:])


def test_only_doubtful_tokens_are_looked_at_again_and_keep_what_was_drafted_first():
    asked: list[int] = []

    def choices(pick: Pick, place: int, depth: int, width: int) -> Pick:
        asked.append(depth)
        return Pick([1, 0, 2], pick.scores)  # a tie, told the other way round

    siblings, picks = (
        Siblings(Calibration(by_halves), lambda count: 0.1 * count, choices),
        [[_pick(0.95, 0.02, 0.01)], [_pick(0.4, 0.3, 0.2)]],
    )
    assert siblings.widths(picks, [[1.0], [0.9]], most=9)[0] == 1
    assert asked == [1]
    assert picks[1][0].tokens[0] == 0


class _Cheap:
    """Drafts cost next to nothing, and so does one node more."""

    def ms(self, step: object) -> float:
        plan = step.plan  # type: ignore[attr-defined]
        skips = plan.skip_attn or plan.skip_mlp
        return 0.1 if skips else 10.0 + 0.01 * step.tokens  # type: ignore[attr-defined]

    def observe(self, step: object, ms: float) -> None:
        pass


def _decoded(width: int, rows: int = 1) -> tuple[list[list[int]], Summary]:
    """With a plan that is often wrong, on a random model."""
    network, summary = tiny_network(layers=6), Summary()
    drafter = SkipDrafter(SkipDrafter.Options(width=width, head="full"), network)
    assert drafter.tuned is not None
    drafter.tuned.tuner.use = InUse.taken_up(Trial(LayerPlan.uniform(6), 32, 32, 1.5), share=0.7, tokens=0)
    engine = Engine(network, drafter, rows=rows, capacity=400, sinks=[summary], costs=_Cheap())
    said: dict[int, list[int]] = {}
    for n in range(rows):
        said[engine.admit(Request([5 + n, 6, 7], max_new_tokens=40 + 9 * n))[0]] = []
    while engine.busy:
        for emission in engine.step():
            said[emission.row] += emission.tokens
    return list(said.values()), summary


@pytest.mark.parametrize("rows", [1, 3])
def test_a_plan_that_was_found_drafts_choices_where_they_pay_and_changes_no_text(rows: int):
    said, summary = _decoded(width=0, rows=rows)
    wanted = [
        plain_text(tiny_network(layers=6), Request([5 + n, 6, 7], max_new_tokens=40 + 9 * n)) for n in range(rows)
    ]
    assert said == wanted
    assert summary.nodes > summary.drafted > 0
    assert summary.rescued > 0


def test_a_width_of_one_has_none():
    _, summary = _decoded(width=1)
    assert summary.nodes == summary.drafted > 0
    assert summary.rescued == 0
