"""Over seeds, both acceptance rules sample what the target says; chi-square on the first two tokens jointly."""

import pytest
import torch
from chi_square import p_value
from decoding import plain

from skipstone.accept import AcceptanceRule, Follow, Rejection
from skipstone.draft.skip import SkipDrafter
from skipstone.drafting import Drafter
from skipstone.engine import Engine
from skipstone.request import Request
from skipstone.sampling import RowSampler, SamplingParams
from skipstone.testing import tiny_network

V = 8
TEXTS = 1500
ROWS = 250
SIGNIFICANT = 1e-4
NET = tiny_network(vocab_size=V, layers=3, seed=2, agreeing=0.6)
PROMPT = [3, 1, 6, 1]
CUT = {"temperature": 0.8, "top_p": 0.97, "repetition_penalty": 1.1}


def _skip(width: int = 1) -> SkipDrafter:
    return SkipDrafter(SkipDrafter.Options(plan="uniform", depth=2, width=width), NET)


def _pairs(drafter: Drafter, rule: AcceptanceRule, samples: int = 1, texts: int = TEXTS) -> torch.Tensor:
    """[V, V] counts of the first two tokens over seeds (with ``samples``, over as many derived ones)."""
    counts = torch.zeros(V, V)
    for start in range(0, texts, ROWS):
        engine = Engine(NET, drafter, rows=ROWS, capacity=len(PROMPT) + 3, rule=rule)
        for seed in range(start, start + ROWS, samples):
            engine.admit(Request(PROMPT, 3, SamplingParams(**CUT, seed=seed)), samples=samples)
        given: list[list[int]] = [[] for _ in range(ROWS)]
        while engine.busy:
            for emission in engine.step():
                given[emission.row] += emission.tokens
                if len(given[emission.row]) > 1:
                    engine.release(emission.row)
        for first, second, *_ in given:
            counts[first, second] += 1
    return counts


def _target() -> torch.Tensor:
    """[V, V] probability of each pair, from the model's own forward pass."""
    sampler = RowSampler(SamplingParams(**CUT), V, NET.device)
    sampler.start(PROMPT)
    texts = torch.tensor([[*PROMPT, token] for token in range(V)])
    logits = NET.model(texts).logits.detach()
    first = sampler.scores(logits[:1, -2], [[]]).softmax(-1)[0]
    second = sampler.scores(logits[:, -1], [[token] for token in range(V)]).softmax(-1)
    return first[:, None] * second


@pytest.mark.parametrize("rule", [Follow(), Rejection()])
def test_text_drafted_by_an_imperfect_chain_has_the_targets_distribution(rule: AcceptanceRule):
    assert p_value(_pairs(_skip(), rule), _target()) > SIGNIFICANT


def test_samples_of_one_prompt_have_the_targets_distribution():
    assert p_value(_pairs(_skip(width=2), Follow(), samples=ROWS), _target()) > SIGNIFICANT


class Credulous(Follow):
    """Believes a draft as soon as the target finds it likely enough."""

    def judge(self, nodes, scores, sampler):
        verdict = super().judge(nodes, scores, sampler)
        if not verdict.path and len(nodes.tokens) > 1 and scores[0].softmax(-1)[nodes.tokens[1]] > 0.2:
            deeper = sampler.perturbed(scores[1][None], [nodes.topology.depth[1]])[0]
            return type(verdict)([1], int(deeper.argmax()))
        return verdict


class Unresidual(Rejection):
    """Samples from the target itself after a rejection."""

    def judge(self, nodes, scores, sampler):
        verdict = super().judge(nodes, scores, sampler)
        node = verdict.path[-1] if verdict.path else 0
        return type(verdict)(verdict.path, self._sample(scores[node].softmax(-1), sampler, node))


@pytest.mark.parametrize("rule", [Credulous(), Unresidual()])
def test_a_rule_that_bends_the_distribution_is_found_out(rule: AcceptanceRule):
    """The control: the tests above could fail."""
    assert p_value(_pairs(_skip(), rule, texts=500), _target()) < SIGNIFICANT


def test_rejection_at_temperature_zero_gives_the_greedy_text():
    request = Request(PROMPT, 12)
    texts = []
    for drafter, rule in ((plain(NET), Follow()), (_skip(), Rejection())):
        engine = Engine(NET, drafter, capacity=20, rule=rule)
        engine.admit(request)
        texts.append([token for _ in range(12) for emission in engine.step() for token in emission.tokens])
    assert texts[0] == texts[1]
