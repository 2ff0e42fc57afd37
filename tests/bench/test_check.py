"""``skipstone check``: equality is found, faults are found, and rounding is told from faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from torch import Tensor

from skipstone.accept import Follow, Nodes, Verdict
from skipstone.bench import check as check_module
from skipstone.bench.check import CheckReport, CheckSpec, Difference, References, decode, first_difference, run_check
from skipstone.bench.near_tie import Judgement
from skipstone.calibrate import measure
from skipstone.cost import CostModel
from skipstone.draft.none import NoDrafter
from skipstone.drafting import DraftState
from skipstone.errors import UsageError
from skipstone.hf.load import LoadedModel
from skipstone.hf.network import HFNetwork
from skipstone.plugins import make_drafter
from skipstone.sampling import RowSampler
from skipstone.testing import tiny_network
from skipstone.text.language_model import LanguageModel
from skipstone.text.settings import GenerationSettings
from skipstone.tree import Draft

PROMPTS = [[1, 2, 3, 1, 2], [5, 6], [9, 8, 7, 9, 8, 7]]
DRAFTERS = ["none", "ngram:min=1", "skip:plan=uniform,depth=3,width=2", "exit:layer=2,depth=3"]


class NumberTokenizer:
    """Decodes token ids as numbers."""

    eos_id = None
    bos_id = None

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join(map(str, tokens))


def model_of(network: HFNetwork) -> LanguageModel:
    tokenizer: Any = NumberTokenizer()
    return LanguageModel(LoadedModel("tiny", network, tokenizer, {}, 0.0))


def spec(drafter: str, **settings: Any) -> CheckSpec:
    return CheckSpec(drafter, settings=GenerationSettings(max_new_tokens=16, eos_token_id=[], **settings))


def check(network: HFNetwork, chosen: CheckSpec) -> CheckReport:
    return run_check(model_of(network), PROMPTS, chosen, lambda report: None)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_every_drafter_is_equal_on_a_tiny_model(drafter: str) -> None:
    report = check(tiny_network(), spec(drafter))
    assert report.equal
    assert (report.sequences, report.tokens) == (3, 48)
    assert report.to_json()["differences"] == report.to_json()["near_ties"] == 0


def test_a_check_counts_what_was_drafted_and_drafts_by_the_costs_that_generate_has() -> None:
    assert check(tiny_network(), spec("exit:layer=2,depth=3")).drafted > 0
    assert check(tiny_network(), spec("none")).drafted == 0
    network, seen = tiny_network(), []
    tokenizer: Any = NumberTokenizer()
    costs = measure(network, 0.1)
    model = LanguageModel(LoadedModel("tiny", network, tokenizer, {}, 0.0), measure_costs=lambda: costs)

    class Curious(NoDrafter):
        uses_costs = True

        def propose(self, state: DraftState) -> Draft:
            seen.append(state.costs)
            return super().propose(state)

    request = model.request([5, 9], GenerationSettings(max_new_tokens=2, eos_token_id=[]))
    decode(model, request, Curious(NoDrafter.Options(), network))
    assert isinstance(model.costs, CostModel)
    assert seen == [model.costs, model.costs]


def test_sampling_is_checked_too() -> None:
    assert check(tiny_network(), spec("exit:layer=2", temperature=1.0, seed=5)).equal


def test_plain_decoding_equals_transformers() -> None:
    assert check(tiny_network(), replace(spec("none"), against="transformers")).equal


def test_transformers_samples_otherwise_and_is_refused() -> None:
    with pytest.raises(UsageError, match="temperature 0"):
        check(tiny_network(), replace(spec("none", temperature=1.0), against="transformers"))


def test_an_unknown_reference_is_refused() -> None:
    with pytest.raises(UsageError, match="plain or transformers"):
        CheckSpec(against="vllm")  # type: ignore[arg-type]


class WrongNow(Follow):
    """Follow, but now and then the second best token is taken."""

    def judge(self, nodes: Nodes, scores: Tensor, sampler: RowSampler) -> Verdict:
        verdict = super().judge(nodes, scores, sampler)
        if sampler.length % 7 == 0 and len(nodes.tokens) > 1:
            return Verdict([], int(scores[0].topk(2).indices[1]))
        return verdict


def test_a_fault_is_reported_with_place_tokens_and_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "Follow", WrongNow)
    report = check(tiny_network(), spec("exit:layer=2"))
    assert not report.equal
    assert report.near_ties == []
    first = report.differences[0]
    assert first.expected != first.got
    assert first.gap > 2 * first.error
    assert (len(PROMPTS[first.sequence]) + first.position) % 7 == 0


class RoundsByWidth(HFNetwork):
    """A network whose logits lose digits when several nodes run at once, as kernels of other shapes do."""

    step = 1.0

    def logits(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
        exact = super().logits(hidden, subset)
        return exact if hidden.shape[1] == 1 else (exact / self.step).round() * self.step


def test_rounding_is_told_from_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skipstone.bench.near_tie._rounding", lambda dtype, exact: RoundsByWidth.step)
    report = check(RoundsByWidth(tiny_network(seed=3).model), spec("exit:layer=2,depth=3"))
    assert report.near_ties
    assert report.differences == []


def test_the_check_goes_on_behind_a_difference() -> None:
    model = model_of(tiny_network())
    request = model.request(PROMPTS[0], spec("none", seed=0).settings)
    whole, _ = decode(model, request, make_drafter("none", model.network))
    resumed, best = decode(model, replace(request, generated=whole[:5]), make_drafter("none", model.network))
    assert resumed == whole
    assert len(best) == len(whole) - 5


def test_references_are_decoded_once_for_several_drafters(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(tiny_network())
    references = References(model, "plain")
    for drafter in DRAFTERS[1:]:
        assert run_check(model, PROMPTS, spec(drafter), lambda report: None, references).equal
        monkeypatch.delattr(References, "_decode", raising=False)


def report_of(tokens: int, near_ties: int) -> CheckReport:
    tie = Difference(0, 0, 1, 2, "a", "b", 1e-6, 1e-6, True)
    return CheckReport("m", "d", "plain", "float32", "stock", tokens=tokens, near_ties=[tie] * near_ties)


@pytest.mark.parametrize(
    ("tokens", "near_ties", "equal"),
    [(100, 0, True), (100, 1, True), (100, 2, False), (20000, 4, True), (20000, 5, False)],
)
def test_more_than_one_near_tie_in_5000_tokens_fails(tokens: int, near_ties: int, equal: bool) -> None:
    assert report_of(tokens, near_ties).equal is equal


def test_the_first_difference_counts_a_missing_end() -> None:
    assert first_difference([1, 2], [1, 2]) is None
    assert first_difference([1, 2], [1, 3]) == 1
    assert first_difference([1, 2], [1]) == 1


@pytest.mark.parametrize(("gap", "error", "near"), [(0.1, 0.06, True), (0.2, 0.06, False), (0.1, 0.9, False)])
def test_a_score_that_is_further_off_than_rounding_can_explain_is_no_near_tie(
    gap: float, error: float, near: bool
) -> None:
    assert Judgement(gap, error, rounding=0.5).near_tie is near
