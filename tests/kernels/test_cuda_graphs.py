"""Recorded runs compute what the wrapped network computes. Graphs are stood in for by ``Rerun``: no GPU is needed."""

import gc
import random

import pytest
import torch
from decoding import SLOTS, Text, Visit, alone, decode, network
from drawing import Scene, built_in, requests, scenes
from hypothesis import given, settings
from hypothesis import strategies as st

from skipstone.engine import Engine
from skipstone.errors import PlanError, UsageError
from skipstone.kernels.cuda_graphs import GraphedNetwork
from skipstone.kernels.graph_key import RunKey, bucket_of
from skipstone.kernels.graph_table import GraphOptions
from skipstone.kernels.graphs import RunInputs
from skipstone.kernels.recorder import CannotRecord, CudaRecorder, HostFree, Rerun
from skipstone.plan import LayerPlan
from skipstone.plugins import make_drafter
from skipstone.request import Request
from skipstone.sampling import SamplingParams
from skipstone.testing import check_network, tiny_network
from skipstone.tree import Topology

AT_ONCE = GraphOptions(after=0, smallest=8)


class Counting(Rerun):
    """Counts what is recorded and replayed."""

    def __init__(self):
        self.recorded = self.replayed = 0

    def record(self, function):
        replay = super().record(function)
        self.recorded += 1

        def counted():
            self.replayed += 1
            return replay()

        return counted


class Moody(Rerun):
    """Fails at random: before, or after having run half of what it should."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def record(self, function):
        mood = self.random.random()
        if mood < 0.3:
            raise RuntimeError("operation not permitted when stream is capturing")
        replay = super().record(function)
        if mood < 0.5:
            raise RuntimeError("capture was invalidated")
        return replay


def graphed(inner=None, recorder=None, options=AT_ONCE):
    return GraphedNetwork(inner or network(), recorder or Rerun(), options)


def chain(net, cache, tokens, row=0, plan=None, **more):
    placement = cache.place(Topology.chain(len(tokens)), [row])
    return net.run(torch.tensor([tokens]), placement, cache, plan or LayerPlan.full(net.num_layers), **more)


@pytest.mark.parametrize("name", ["llama", "windowed", "dynamic", "longrope"])
def test_keeps_the_contract_of_a_network(name):
    check_network(graphed(network(name)))


@pytest.mark.parametrize("model_type", ["bloom", "gemma2", "gpt_neox", "opt"])
def test_other_ways_to_know_positions_are_recorded_too(model_type):
    net = graphed(tiny_network(model_type, layers=2))
    check_network(net, tolerance=1e-6)
    assert net.recorded
    assert not net.notes


@pytest.mark.parametrize("name", ["llama", "windowed"])
def test_a_steady_run_is_replayed_and_equals_the_plain_one(name):
    recorder = Counting()
    inner = network(name)
    net = graphed(inner, recorder, GraphOptions(after=2))
    plain, cache = inner.new_cache(1, 64), net.new_cache(1, 64)
    for token in range(6):
        want = chain(inner, plain, [token], taps=(2,))
        got = chain(net, cache, [token], taps=(2,))
        torch.testing.assert_close(got.hidden, want.hidden, atol=1e-12, rtol=0)
        torch.testing.assert_close(got.taps[2], want.taps[2], atol=1e-12, rtol=0)
        for each in (plain, cache):
            each.commit([0], [[0]])
    assert (recorder.recorded, recorder.replayed) == (1, 4)
    for got, want in zip((*cache.keys, *cache.values), (*plain.keys, *plain.values), strict=True):
        torch.testing.assert_close(got, want, atol=1e-12, rtol=0)


@pytest.mark.parametrize("rows", [[[0, 1]], [[1, 2]], [[2, 0], [0, 2], [2, 1]], [[1], [0]]])
def test_rows_of_any_lengths_and_order(rows):
    net, inner = graphed(), network()
    caches = [n.new_cache(3, 40) for n in (net, inner)]
    for n, cache in zip((net, inner), caches, strict=True):
        for row, length in enumerate([9, 2, 14]):
            chain(n, cache, list(range(row, row + length)), row)
            cache.commit([row], [range(length)])
    tree = Topology.comb((2, 2))
    for some in rows:
        tokens = torch.arange(5).repeat(len(some), 1)
        results = [
            n.run(tokens, cache.place(tree, some), cache, LayerPlan.full(4)).hidden
            for n, cache in zip((net, inner), caches, strict=True)
        ]
        torch.testing.assert_close(*results, atol=1e-12, rtol=0)


def test_every_number_of_a_placement_reaches_the_graph():
    cache = network().new_cache(3, 40)
    cache.lengths[:] = [3, 0, 12]
    cache.prompt_lengths[:] = [20, 0, 2]
    tree, rows = Topology.comb((2, 1)), [2, 0]
    placement = cache.place(tree, rows, prefix=torch.tensor([[9], [1]]).expand(2, len(tree)))
    x = torch.arange(8).view(2, 4)
    inputs = RunInputs(RunKey.of(x, placement, LayerPlan.full(4), (), 32), x, x.device)
    inputs.placement.visible.fill_(True)
    for _ in range(2):
        inputs.fill(x, placement)
        static, extent = inputs.placement, placement.extent
        assert torch.equal(inputs.x, x)
        assert inputs.rows.tolist() == rows
        for name in ("slots", "positions", "reach"):
            assert torch.equal(getattr(static, name), getattr(placement, name))
        assert torch.equal(static.visible[..., :extent], placement.visible)
        assert not static.visible[..., extent:].any()
        assert torch.equal(static.key_positions[:, :extent], placement.key_positions)
    assert not static.unmasked


@pytest.mark.parametrize("drafter", ["none", "ngram", "skip:plan=uniform,depth=3,width=2", "exit:layer=2,depth=3"])
def test_drafters_say_the_same(drafter):
    """Three ragged texts in two rows, so that rows change hands."""
    recorder = Counting()
    net = graphed(recorder=recorder, options=GraphOptions(after=2, smallest=8))
    asked = [
        Request([1, 2, 3] * n, 24, SamplingParams(temperature=temperature, seed=n))
        for n, temperature in ((1, 0.0), (4, 0.8), (2, 1.3))
    ]
    engine = Engine(net, make_drafter(drafter, net), rows=2, capacity=64)
    texts = decode(engine, [Visit(request) for request in asked])
    plain = [decode(Engine(network(), make_drafter("none", network()), capacity=64), [Visit(r)])[0] for r in asked]
    assert [text.tokens for text in texts] == [text.tokens for text in plain]
    assert recorder.replayed > recorder.recorded > 4
    assert not net.notes


@settings(max_examples=40)
@given(scenes(), st.integers(0, 99))
def test_the_output_does_not_depend_on_what_can_be_recorded(scene: Scene, seed: int):
    options = GraphOptions(after=seed % 3, limit=1 + seed % 5, max_nodes=1 + seed % 9, smallest=8)
    engine = scene.engine
    engine.network = GraphedNetwork(engine.network, Moody(seed) if seed % 2 else Rerun(), options)
    for text, expected in zip(decode(engine, scene.visits), scene.plain, strict=True):
        assert text.error is None
        assert text.tokens == expected[: max(len(text.tokens), text.visit.leave_at)]


@given(requests, st.data())
def test_one_graphed_network_serves_engine_after_engine(request: Request, data: st.DataObject):
    net = graphed(recorder=Moody(data.draw(st.integers(0, 99))))
    want = alone(network(), request).tokens
    for _ in range(3):
        assert alone(net, request, data.draw(built_in(network()))).tokens == want


def test_results_are_the_callers_to_keep():
    net = graphed()
    cache = net.new_cache(1, 40)
    first = chain(net, cache, [1], taps=(0, 4))
    logits = net.logits(first.hidden)
    kept = [t.clone() for t in (first.hidden, first.taps[0], first.taps[4], logits)]
    cache.commit([0], [[0]])
    again = chain(net, cache, [2], taps=(0, 4))
    net.logits(again.hidden)
    assert not torch.equal(again.hidden, first.hidden)
    for now, before in zip((first.hidden, first.taps[0], first.taps[4], logits), kept, strict=True):
        assert torch.equal(now, before)


def test_the_least_recently_used_graph_is_dropped():
    recorder = Counting()
    net = graphed(recorder=recorder, options=GraphOptions(after=0, limit=2))
    cache = net.new_cache(1, 40)
    for nodes in (1, 2, 1, 3, 1):  # 3 takes the place of 2
        chain(net, cache, [5] * nodes)
    assert (net.recorded, recorder.recorded) == (2, 3)
    chain(net, cache, [5] * 2)
    assert recorder.recorded == 4


def test_graphs_go_with_their_cache():
    net = graphed()
    cache = net.new_cache(1, 40)
    chain(net, cache, [1])
    assert net.recorded == 1
    del cache
    gc.collect()
    assert net.recorded == 0


def test_what_fails_is_remembered_with_its_reason():
    class Failing(Rerun):
        tries = 0

        def record(self, function):
            self.tries += 1
            raise RuntimeError("no capture today\nStack trace: …")

    recorder = Failing()
    net = graphed(recorder=recorder)
    for _ in range(2):
        cache = net.new_cache(1, 40)
        for _ in range(3):
            chain(net, cache, [1])
    assert recorder.tries == 1
    assert net.notes == ["runs without a CUDA graph: no capture today"]


def test_scalings_that_ask_the_host_run_without_graphs():
    net = graphed(network("dynamic"))
    chain(net, net.new_cache(1, 40), [1, 2])
    assert "wait for each other" in net.notes[0]


def test_without_a_gpu_everything_runs_on_the_wrapped_network():
    net = GraphedNetwork(network(), options=AT_ONCE)
    assert isinstance(net.recorder, CudaRecorder)
    request = Request([1, 2, 3], 9)
    assert alone(net, request).tokens == alone(network(), request).tokens
    assert net.notes == ["runs without a CUDA graph: CUDA graphs need a CUDA device, the network is on cpu"]


def test_prefill_is_not_recorded():
    recorder = Counting()
    net = graphed(recorder=recorder, options=GraphOptions(after=0, max_nodes=4))
    chain(net, net.new_cache(1, 40), [1, 2, 3, 4, 5])
    assert recorder.recorded == 0


def test_caches_that_write_in_their_own_way_are_left_to_the_network():
    cache = network().new_cache(1, 40)
    own = type("Own", (type(cache),), {"write": lambda self, *args: super(type(self), self).write(*args)})
    cache.__class__ = own
    net = graphed()
    chain(net, cache, [1])
    assert net.recorded == 0


def test_errors_are_those_of_the_wrapped_network():
    net = graphed()
    with pytest.raises(PlanError, match="the model has layers"):
        chain(net, net.new_cache(1, 40), [1], plan=LayerPlan.full(9))


def test_a_replay_never_waits_for_the_device():
    net = graphed()
    cache = net.new_cache(2, 40)
    placement = cache.place(Topology.chain(3), [0, 1])
    tokens = torch.tensor([[1, 2, 3]] * 2)
    subset = torch.tensor([3, 1])
    for _ in range(2):
        with HostFree():
            hidden = net.run(tokens, placement, cache, LayerPlan.full(4)).hidden
            net.logits(hidden, subset)
    assert net.recorded == 2


@pytest.mark.parametrize(
    "wait",
    [
        lambda t: t.sum().item(),
        lambda t: t.nonzero(),
        lambda t: t.unique(),
        lambda t: bool((t > 1).any()),
        lambda t: t[t > 1],
        lambda t: torch.where(t > 1),
        lambda t: t.to("meta"),  # stands for any other device
        lambda t: torch.empty(3, device="meta").copy_(t),
        lambda t: torch.tensor([1.0], device="meta"),
    ],
)
def test_waiting_for_the_device_is_noticed(wait):
    numbers = torch.ones(3)
    with torch.inference_mode(), HostFree(), pytest.raises(CannotRecord, match="wait for each other"):
        wait(numbers)


def test_parts_of_the_vocabulary_have_graphs_of_their_own():
    net = graphed()
    hidden = torch.randn(1, 1, 32, dtype=torch.float64)
    subsets = [torch.tensor([1, 2]), torch.tensor([3, 4])]
    for _ in range(2):
        for subset in subsets:
            torch.testing.assert_close(net.logits(hidden, subset), network().logits(hidden, subset))
    assert net.recorded == 2


def test_a_text_that_overflowed_leaves_nothing_to_the_next_in_its_row():
    net = graphed()
    engine = Engine(net, make_drafter("none", net), capacity=SLOTS)
    request = Request([1, 2, 3], 9)
    row = engine.admit(request)[0]
    engine.step()
    for buffer in (*engine.cache.keys, *engine.cache.values):
        buffer[row, :, : engine.cache.lengths[row]] = float("nan")
    assert engine.step()[0].finish_reason == "error"
    engine.release(row)
    text: Text = decode(engine, [Visit(request)])[0]
    assert text.tokens == alone(network(), request).tokens


def test_buckets_are_few_and_hold_what_they_should():
    sizes = {bucket_of(extent, 1 << 20) for extent in range(1, 32769)}
    assert len(sizes) == 38
    assert all(bucket_of(extent, 1 << 20) >= extent for extent in range(1, 32769))
    assert bucket_of(100, 110) == 110


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"after": -1}, {"max_nodes": 0}, {"smallest": 0}])
def test_options_that_cannot_work_are_refused(wrong):
    with pytest.raises(UsageError, match="cannot work"):
        GraphOptions(**wrong)
