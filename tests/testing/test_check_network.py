"""The check for networks finds what would otherwise show as a wrong word now and then."""

from dataclasses import replace

import pytest
import torch

from skipstone.hf.network import HFNetwork
from skipstone.network import Run
from skipstone.testing import check_network, tiny_network


class Broken(HFNetwork):
    """A tiny network with one fault."""

    def __init__(self):
        super().__init__(tiny_network(layers=3).model)


class SeesScratch(Broken):
    def run(self, x, placement, cache, plan, taps=()):
        return super().run(x, replace(placement, visible=torch.ones_like(placement.visible)), cache, plan, taps)


class SeesSiblings(Broken):
    def run(self, x, placement, cache, plan, taps=()):
        seen = torch.arange(placement.extent) <= placement.slots[..., None]
        return super().run(x, replace(placement, visible=seen), cache, plan, taps)


class CountsSlots(Broken):
    def run(self, x, placement, cache, plan, taps=()):
        return super().run(x, replace(placement, positions=placement.slots), cache, plan, taps)


class PositionsOfTheFirstRow(Broken):
    def run(self, x, placement, cache, plan, taps=()):
        positions = placement.positions[:1].expand_as(placement.positions)
        return super().run(x, replace(placement, positions=positions), cache, plan, taps)


class TapsAfterTheLayer(Broken):
    def run(self, x, placement, cache, plan, taps=()):
        run = super().run(x, placement, cache, plan, [min(tap + 1, plan.stop) for tap in taps])
        return Run(run.hidden, {tap: run.taps[min(tap + 1, plan.stop)] for tap in taps})


class RunsTheLayerItExitsAt(Broken):
    def run(self, x, placement, cache, plan, taps=()):
        stop = min(plan.stop + 1, self.num_layers) if plan.stop else 0
        return super().run(x, placement, cache, replace(plan, stop=stop), list(taps))


class SkipsOnlyAttention(Broken):
    def run(self, x, placement, cache, plan, taps=()):
        return super().run(x, placement, cache, replace(plan, skip_mlp=frozenset()), taps)


class WritesKeysOfSkippedLayers(Broken):
    def run(self, x, placement, cache, plan, taps=()):
        for row, first in zip(placement.rows, placement.first, strict=True):
            if plan.skip_attn:
                cache.keys[0][row, :, first] = 1
        return super().run(x, placement, cache, plan, taps)


class MovesNothing(Broken):
    def new_cache(self, rows, capacity):
        cache = super().new_cache(rows, capacity)
        cache._move = lambda row, path: None
        return cache


class OneLogitTooFew(Broken):
    def logits(self, hidden, subset=None):
        return super().logits(hidden, subset)[..., :-1]


class SubsetInOrder(Broken):
    def logits(self, hidden, subset=None):
        return super().logits(hidden, subset if subset is None else subset.sort().values)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (SeesScratch, "a prompt taken in chunks|what lies in scratch|node 0 of a tree"),
        (SeesSiblings, "node 3 of a tree differs"),
        (CountsSlots, "node 3 of a tree differs"),
        (PositionsOfTheFirstRow, r"row 1 of rows \[0, 1, 2\] differs"),
        (TapsAfterTheLayer, "tap 0 differs"),
        (RunsTheLayerItExitsAt, "tap 1 differs"),
        (SkipsOnlyAttention, "skips every sublayer changes the embeddings"),
        (WritesKeysOfSkippedLayers, "writes keys or values"),
        (MovesNothing, "text after a committed branch"),
        (OneLogitTooFew, r"logits have shape \(1, 8, 63\), not \(1, 8, 64\)"),
        (SubsetInOrder, "logits of a part of the vocabulary differ"),
    ],
)
def test_a_fault_is_named(fault: type[Broken], sentence: str):
    with pytest.raises(AssertionError, match=sentence):
        check_network(fault())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_network_without_a_fault_passes_in_every_precision(dtype: torch.dtype):
    check_network(tiny_network(dtype=dtype))


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "qwen3"])
def test_tiny_networks_come_in_every_supported_type_and_repeat_themselves(model_type: str):
    one, other = (tiny_network(model_type, layers=2, seed=3) for _ in range(2))
    assert all(map(torch.equal, one.model.parameters(), other.model.parameters()))
    assert (one.config.model_type, one.num_layers) == (model_type, 2)
