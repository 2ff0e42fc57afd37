"""Judging one row's draft."""

import pytest
import torch

from skipstone.accept import Follow, Nodes, Rejection
from skipstone.errors import ConstraintError, NumericsError, UsageError
from skipstone.noise import Stream
from skipstone.sampling import RowSampler, SamplingParams
from skipstone.tree import Topology

V = 5
INF = float("inf")


def _sampler(temperature: float = 0.0, seed: int = 0) -> RowSampler:
    return RowSampler(SamplingParams(temperature=temperature, seed=seed), V, torch.device("cpu"))


def _saying(*tokens: int) -> torch.Tensor:
    """Scores [N, V] of a target whose choice at node n is ``tokens[n]``."""
    return torch.nn.functional.one_hot(torch.tensor(tokens), V).double()


def _nodes(topology: Topology, tokens: list[int], dead: tuple[int, ...] = (), probs=None) -> Nodes:
    return Nodes(topology, tokens, [node not in dead for node in range(len(tokens))], probs)


TREE = Topology((-1, 0, 0, 1, 2, 4))
TOKENS = [0, 1, 2, 3, 3, 4]


@pytest.mark.parametrize(
    ("choices", "path", "bonus"),
    [
        ((4, 0, 0, 0, 0, 0), [], 4),
        ((1, 4, 0, 0, 0, 0), [1], 4),
        ((1, 3, 0, 2, 0, 0), [1, 3], 2),
        ((2, 3, 3, 0, 4, 1), [2, 4, 5], 1),
    ],
)
def test_the_walk_follows_the_targets_choices_down_the_tree(choices, path, bonus):
    verdict = Follow().judge(_nodes(TREE, TOKENS), _saying(*choices), _sampler())
    assert (verdict.path, verdict.next) == (path, bonus)


def test_a_filler_is_never_accepted_and_neither_is_anything_below_it():
    verdict = Follow().judge(_nodes(TREE, TOKENS, dead=(4,)), _saying(2, 0, 3, 0, 4, 1), _sampler())
    assert (verdict.path, verdict.next) == ([2], 3)


def test_of_equal_scores_the_lowest_token_wins():
    assert Follow().judge(_nodes(Topology.chain(1), [0]), torch.zeros(1, V), _sampler()).next == 0
    assert Follow().pick(torch.zeros(V), _sampler(), 0, 1).tokens == [0]


@pytest.mark.parametrize("rule", [Follow(), Rejection()])
@pytest.mark.parametrize(
    ("scores", "error"),
    [([-INF] * V, ConstraintError), ([0, float("nan"), 0, 0, 0], NumericsError), ([INF] * V, NumericsError)],
)
def test_a_node_without_a_choice_ends_the_walk_with_an_error_and_keeps_what_came_before(rule, scores, error):
    target = _saying(1, 0, 0)
    target[1] = torch.tensor(scores)
    verdict = rule.judge(_nodes(Topology.chain(3), [0, 1, 2]), target, _sampler())
    assert (verdict.path, verdict.next) == ([1], None)
    assert isinstance(verdict.error, error)


@pytest.mark.parametrize("rule", [Follow(), Rejection()])
def test_a_node_nobody_reaches_may_be_anything(rule):
    target = _saying(4, 0)
    target[1] = float("nan")
    assert rule.judge(_nodes(Topology.chain(2), [0, 1]), target, _sampler()).next == 4


def test_a_pick_is_best_first_and_says_how_sure_the_draft_is():
    scores = torch.tensor([0.0, 3.0, 1.0, 2.0, -INF])
    pick = Follow().pick(scores, _sampler(), 0, 3)
    assert pick.tokens == [1, 3, 2]
    assert pick.confidence == pytest.approx(float(scores.softmax(-1)[1]))


@pytest.mark.parametrize("seed", range(20))
def test_a_draft_that_agrees_with_the_target_picks_what_the_target_samples(seed: int):
    scores = torch.randn(V, generator=torch.Generator().manual_seed(seed))
    sampler = _sampler(1.0, seed)
    assert Follow().pick(scores, sampler, 2, 1).tokens == [int((scores + sampler.noise(2)).argmax())]
    assert Follow().pick(scores, sampler, 2, 3).tokens[0] == int((scores + sampler.noise(2)).argmax())


def test_the_rejection_rule_judges_chains_only():
    with pytest.raises(UsageError, match="chains only"):
        Rejection().judge(_nodes(TREE, TOKENS), _saying(0, 0, 0, 0, 0, 0), _sampler())
    with pytest.raises(UsageError, match="use width=1, not 2"):
        Rejection().pick(torch.zeros(V), _sampler(), 0, 2)


def test_rejection_accepts_with_the_ratio_of_the_probabilities():
    """p/q is 0.5 for token 0, which the draft always gives; else token 1."""
    target = torch.tensor([[0.5, 0.5, 0, 0, 0], [1.0, 0, 0, 0, 0]], dtype=torch.float64).log()
    nodes = _nodes(Topology.chain(2), [4, 0])
    verdicts = [Rejection().judge(nodes, target, _sampler(1.0, seed)) for seed in range(2000)]
    accepted = sum(verdict.path == [1] for verdict in verdicts)
    assert 900 < accepted < 1100
    assert all(verdict.next == 1 for verdict in verdicts if not verdict.path)


def test_a_draft_whose_probabilities_are_not_numbers_counts_as_certain_of_its_token():
    target = torch.tensor([[-INF, 0.0, -INF, -INF, -INF]] * 2)
    nodes = _nodes(Topology.chain(2), [4, 0], probs=torch.full((1, V), float("nan")))
    verdict = Rejection().judge(nodes, target, _sampler(1.0))
    assert (verdict.path, verdict.next) == ([], 1)


def test_draws_of_the_draft_are_not_those_of_the_target():
    sampler = _sampler(1.0)
    assert not torch.equal(sampler.noise(0), sampler.noise(0, Stream.DRAFT))
