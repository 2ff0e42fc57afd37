"""Admission, release, figures and refusals; what the engine says is a matter for the laws."""

import contextlib
from collections.abc import Callable, Sequence

import pytest
import torch
from decoding import SLOTS, VOCAB, RandomDrafter, Visit, alone, decode, network, plain

from skipstone.calibrate import measure
from skipstone.cost import CostModel, Step
from skipstone.draft.exit import ExitDrafter
from skipstone.draft.ngram import NgramDrafter
from skipstone.draft.none import NoDrafter
from skipstone.draft.skip import SkipDrafter
from skipstone.drafting import DraftState
from skipstone.engine import Engine
from skipstone.errors import CapacityError, RequestError, UsageError
from skipstone.network import Network
from skipstone.plan import LayerPlan
from skipstone.request import Request
from skipstone.telemetry import StepRecord, Summary
from skipstone.tree import Draft, Resume, Topology


def _engine(**options) -> Engine:
    return Engine(network(), plain(network()), **{"capacity": SLOTS, **options})


def test_rows_are_admitted_lowest_first_and_free_when_released():
    engine = _engine(rows=3)
    assert engine.admit(Request([1], 9), samples=2) == [0, 1]
    engine.release(0)
    assert engine.free_rows == [0, 2]
    assert engine.admit(Request([1], 9), samples=2) == [0, 2]
    assert engine.free_rows == []


def test_rows_that_were_taken_anew_still_run_as_they_lie_in_the_cache():
    engine = _engine(rows=3)
    engine.admit(Request([1], 9), samples=3)
    engine.release(0)
    engine.admit(Request([1], 9))
    assert [[emission.row for emission in engine.step()] for _ in range(2)] == [[0, 1, 2], [0, 1, 2]]


def test_an_engine_without_texts_has_nothing_to_do():
    engine = _engine()
    assert not engine.busy
    assert engine.step() == []


def test_a_finished_text_keeps_its_row_until_released():
    engine = _engine()
    engine.admit(Request([1], 1))
    assert [emission.finish_reason for emission in engine.step()] == ["length"]
    assert not engine.busy
    assert engine.step() == []
    assert engine.free_rows == []


def test_long_prompts_are_taken_in_chunks_while_other_rows_go_on():
    engine = _engine(rows=2, prefill_chunk=4)
    engine.admit(Request([1], 20))
    engine.admit(Request([2] * 13, 5))
    assert [[emission.row for emission in engine.step()] for _ in range(4)] == [[0], [0], [0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("request_", "options", "error", "message"),
    [
        (Request([]), {}, RequestError, "the prompt is empty"),
        (Request([1], 9), {"samples": 0}, RequestError, "samples=0 asks for no text"),
        (Request([1], 9), {"samples": 3}, CapacityError, "3 rows asked for, 2 of 2 are free"),
        (Request([1], SLOTS), {}, CapacityError, f"need {SLOTS + 1} slots, a row of this engine has {SLOTS}"),
    ],
)
def test_what_cannot_be_admitted_is_refused_and_takes_no_row(request_, options, error, message):
    engine = _engine(rows=2)
    with pytest.raises(error, match=message):
        engine.admit(request_, **options)
    assert engine.free_rows == [0, 1]


def test_a_row_that_holds_no_text_cannot_be_released():
    with pytest.raises(RequestError, match="row 0 holds no text"):
        _engine().release(0)


def test_a_chunk_of_nothing_is_refused():
    with pytest.raises(RequestError, match="prefill_chunk=0"):
        _engine(prefill_chunk=0)


@pytest.mark.parametrize("tokens", [[], [5], [5, 64], [5, -1], [64, 5], [1] * 258])
def test_tokens_that_have_no_scores_are_refused(tokens: list[int]):
    with pytest.raises(RequestError):
        _engine().score(tokens)


def test_a_text_as_long_as_the_context_has_scores():
    assert len(_engine().score([1] * 256)) == 255


def test_scoring_touches_no_row():
    request = Request([1, 2, 3], 9)
    engine = _engine()
    engine.admit(request)
    text = []
    while engine.busy:
        text += [token for emission in engine.step() for token in emission.tokens]
        engine.score([4, 5, 6])
    assert text == alone(network(), request).tokens


class Log:
    def __init__(self):
        self.records: list[StepRecord] = []

    def record(self, record):
        self.records.append(record)


@pytest.mark.parametrize("kind", ["skip", "exit", "ngram", "random"])
def test_records_add_up_to_what_was_emitted(kind: str):
    net = network()
    request = Request([1, 2, 1, 2, 1], 20)
    text = alone(net, request).tokens
    drafter = {
        "skip": lambda: SkipDrafter(SkipDrafter.Options(plan="uniform", width=2), net),
        "exit": lambda: ExitDrafter(ExitDrafter.Options(width=2), net),
        "ngram": lambda: NgramDrafter(NgramDrafter.Options(min=1), net),
        "random": lambda: RandomDrafter(net, 5, lambda _: text),
    }[kind]()
    log, summary = Log(), Summary()
    decode(Engine(net, drafter, capacity=SLOTS, sinks=[log, summary]), [Visit(request)])
    assert summary.emitted == len(text) == sum(record.emitted for record in log.records)
    for record in log.records:
        assert 0 <= record.accepted <= record.drafted <= record.nodes
        assert record.emitted == record.accepted + record.rescued + 1
    assert log.records[0].timing.prefill_s > 0
    assert all(record.timing.prefill_s == 0 for record in log.records[1:])


def test_plain_decoding_gives_one_token_a_verification():
    summary = Summary()
    decode(_engine(sinks=[summary]), [Visit(Request([1], 9))])
    assert summary.mean_accepted_length == 1


def test_what_a_failed_step_gave_is_not_given_to_a_later_text_in_the_same_row():
    class Failing(RandomDrafter):
        def propose(self, state):
            raise RuntimeError("never")

    engine = _engine(rows=2)
    [first] = engine.admit(Request([1, 2], 9))
    [second] = engine.admit(Request([3], 9), drafter=Failing(network(), 0))
    with pytest.raises(RuntimeError, match="never"):
        engine.step()
    engine.release(first)
    engine.release(second)
    assert engine.admit(Request([5], 9)) == [first]
    assert [emission.tokens for emission in engine.step()] == [alone(network(), Request([5], 9)).tokens[:1]]


class Malformed(NoDrafter):
    """Proposes whatever ``spoil`` makes of the pending token, once; then nothing."""

    def __init__(self, net: Network, spoil: Callable[[DraftState], Draft]) -> None:
        super().__init__(NoDrafter.Options(), net)
        self.spoil: Callable[[DraftState], Draft] | None = spoil

    def propose(self, state: DraftState) -> Draft:
        spoil, self.spoil = self.spoil, None
        return spoil(state) if spoil else super().propose(state)


def chain_of(tokens: list[int], resume: Resume | None = None) -> Draft:
    live = torch.ones(1, len(tokens), dtype=torch.bool)
    return Draft(Topology.chain(len(tokens)), torch.tensor([tokens]), live, resume)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda state: chain_of([state.pending[0] ^ 1]), "not the pending tokens"),
        (lambda state: chain_of([state.pending[0], VOCAB]), "the draft holds 64"),
        (lambda state: chain_of([state.pending[0], -1]), "the draft holds -1"),
        (lambda state: chain_of(state.pending, Resume(torch.zeros(1, 1, 32), 5)), "resumes at layer 5: use 1 to 4"),
        (lambda state: chain_of(state.pending, Resume(torch.zeros(1, 2, 32), 2)), "hidden states of shape"),
    ],
)
def test_a_malformed_draft_is_an_error_and_the_text_goes_on_as_if_it_had_not_been(
    spoil: Callable[[DraftState], Draft], says: str
) -> None:
    net = network()
    request = Request([1, 2, 3], 6)
    engine = Engine(net, Malformed(net, spoil), capacity=SLOTS)
    engine.admit(request)
    with pytest.raises(UsageError, match=says):
        while True:
            engine.step()
    tokens = [token for _ in range(6) for emission in engine.step() for token in emission.tokens]
    assert tokens == alone(net, request).tokens


def test_numbers_left_in_scratch_that_are_not_finite_reach_no_row_that_reads_so_far() -> None:
    def spoil(state: DraftState) -> Draft:
        for row in state.rows:
            for buffer in (*state.cache.keys, *state.cache.values):
                buffer[row, :, state.cache.lengths[row] :] = float("nan")
        return state.nothing()

    net = network()
    drafter = Malformed(net, spoil)
    engine = Engine(net, drafter, rows=2, capacity=SLOTS)
    requests = [Request([1, 2, 3], 6), Request([4, 5, 6, 7, 8, 9], 6)]
    said: dict[int, list[int]] = {engine.admit(request)[0]: [] for request in requests}
    while engine.busy:
        drafter.spoil = spoil
        for emission in engine.step():
            assert emission.error is None
            said[emission.row] += emission.tokens
    assert list(said.values()) == [alone(net, request).tokens for request in requests]


def test_a_failing_drafter_does_not_keep_other_rows_from_their_text() -> None:
    def fail(state: DraftState) -> Draft:
        raise RuntimeError("no idea")

    net = network()
    engine = Engine(net, plain(net), rows=2, capacity=SLOTS)
    failing = Malformed(net, fail)
    engine.admit(Request([4, 5], 6), drafter=failing)
    row = engine.admit(Request([1, 2, 3], 6))[0]
    tokens: list[int] = []
    for _ in range(12):
        failing.spoil = fail
        with contextlib.suppress(RuntimeError):
            engine.step()
    failing.spoil = None
    tokens = [token for emission in engine.step() if emission.row == row for token in emission.tokens]
    assert tokens == alone(net, Request([1, 2, 3], 6)).tokens


def test_a_constraint_that_fails_ends_its_own_text_alone() -> None:
    class Fails:
        def mask(self, path: Sequence[int]) -> torch.Tensor:
            return torch.ones(VOCAB, dtype=torch.bool)

        def advance(self, tokens: Sequence[int]) -> None:
            if tokens:
                raise RuntimeError("lost count")

        def fork(self) -> "Fails":
            return self

    net = network()
    engine = Engine(net, RandomDrafter(net, 3), rows=3, capacity=SLOTS)
    engine.admit(Request([4, 5], 6))
    failing = engine.admit(Request([1, 2], 6, constraint=Fails()))[0]
    row = engine.admit(Request([1, 2, 3], 6))[0]
    with pytest.raises(RuntimeError, match="lost count"):
        engine.step()
    emissions = [emission for _ in range(8) for emission in engine.step()]
    assert [token for emission in emissions if emission.row == row for token in emission.tokens] == alone(
        net, Request([1, 2, 3], 6)
    ).tokens
    assert sum(emission.row == failing for emission in emissions) == 1  # what it had before it failed
    assert not engine.busy


def test_an_engine_is_busy_until_its_last_emission_is_handed_out() -> None:
    class Raises:
        def record(self, record: StepRecord) -> None:
            raise ValueError("full")

    net = network()
    engine = Engine(net, plain(net), capacity=SLOTS, sinks=[Raises()])
    engine.admit(Request([1, 2, 3], 4))
    tokens: list[int] = []
    for _ in range(20):
        if not engine.busy:
            break
        with contextlib.suppress(ValueError):
            tokens += [token for emission in engine.step() for token in emission.tokens]
    assert tokens == alone(net, Request([1, 2, 3], 4)).tokens


class Learning(CostModel):
    """A cost model that keeps what it was told."""

    def __init__(self) -> None:
        super().__init__(measure(network(), 0.1))
        self.told: list[tuple[Step, float]] = []

    def observe(self, step: Step, ms: float) -> None:
        self.told.append((step, ms))


def test_the_cost_model_learns_from_every_verification():
    net = network()
    costs = Learning()
    engine = Engine(net, ExitDrafter(ExitDrafter.Options(layer=1, depth=3), net), capacity=SLOTS, rows=2, costs=costs)
    for prompt in ([5, 9], [7, 7, 1]):
        engine.admit(Request(prompt, 6))
    while engine.busy:
        engine.step()
    assert all(ms > 0 for _, ms in costs.told)
    first, _ = costs.told[0]
    assert (first.plan, first.nodes, first.rows, first.context) == (LayerPlan.rest(1, 4), 4, 2, 2)
    assert len(costs.told) >= 2


def test_drafters_see_the_costs_they_may_choose_by():
    costs = Learning()
    seen = []

    class Curious(NoDrafter):
        def propose(self, state: DraftState) -> Draft:
            seen.append(state.costs)
            return super().propose(state)

    engine = Engine(network(), Curious(NoDrafter.Options(), network()), capacity=SLOTS, costs=costs)
    engine.admit(Request([5], 2))
    while engine.busy:
        engine.step()
    assert seen == [costs, costs]
