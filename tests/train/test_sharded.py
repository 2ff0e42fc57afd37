"""Weights spread over processes: what is refused, and what one process alone can show of the rest."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from skipstone.errors import UsageError
from skipstone.testing.tiny import tiny_model
from skipstone.train import EarlyExitLoss, ExitWeights, Fixed, LayerDropout
from skipstone.train.arguments import check_spread
from skipstone.train.objective import Objective, Place
from skipstone.train.sharded import fill_states, finite, in_one_piece


@pytest.mark.parametrize(
    ("deepspeed", "fsdp", "second", "wanted", "said"),
    [
        (True, False, False, False, "DeepSpeed is not served.*use --fsdp"),
        (False, True, False, False, "FSDP 1 is not served: set fsdp_version to 2"),
        (False, False, False, True, "over GPUs only"),
        (False, True, True, True, ""),
        (False, True, True, False, ""),
        (False, False, False, False, ""),
    ],
)
def test_only_fsdp_2_is_served(deepspeed: bool, fsdp: bool, second: bool, wanted: bool, said: str) -> None:
    accelerator = SimpleNamespace(is_fsdp2=second)
    trainer = SimpleNamespace(is_deepspeed_enabled=deepspeed, is_fsdp_enabled=fsdp, accelerator=accelerator)
    if not said:
        check_spread(trainer, wanted)
        return
    with pytest.raises(UsageError, match=said):
        check_spread(trainer, wanted)


def test_an_untouched_weight_gets_the_state_adam_would_begin_with() -> None:
    """What it learns later is what it would have learnt: here of one step after the other weight's."""
    learnt = []
    for filled in (False, True):
        weights = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2))]
        optimizer = torch.optim.AdamW(weights, lr=0.1)
        for turn in (0, 1):
            weights[turn].grad, weights[1 - turn].grad = torch.full_like(weights[turn], 0.5), None
            optimizer.step()
            if filled:
                fill_states(optimizer)
                assert len(optimizer.state) == 2
        learnt.append([weight.detach().clone() for weight in weights])
    assert all(torch.equal(a, b) for a, b in zip(*learnt, strict=True))


def test_without_fsdp_nothing_is_gathered_and_this_process_speaks_for_all() -> None:
    model = tiny_model(layers=2)
    with in_one_piece(model, EarlyExitLoss.of(model).head, release=True):
        pass
    cpu = torch.device("cpu")
    assert finite(model.parameters(), cpu)
    assert not finite([torch.tensor([1.0, float("nan")])], cpu)


def test_norm_and_head_are_gathered_where_fsdp_takes_them_apart_after_the_forward_pass(tmp_path: Path) -> None:
    """As older accelerate sets it; with the head in a unit of its own, whose hooks are not to see the loss."""
    tokens = torch.randint(64, (2, 8), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": tokens, "labels": tokens, "position_ids": torch.arange(8).expand(2, 8)}
    objective = Objective(Fixed(4, frozenset({2})), LayerDropout(4, 0.0, seed=0), ExitWeights(4, 1.0))
    plain, spread = tiny_model(layers=4).train(), tiny_model(layers=4).train()
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        for part in (*spread.model.layers, spread.lm_head, spread):
            fully_shard(part, mesh=mesh, reshard_after_forward=True)
        losses = [objective(model, model, batch, Place(0, 0)) for model in (plain, spread)]
        for each in losses:
            each.total.backward()
        assert losses[0].by_layer == pytest.approx(losses[1].by_layer)
        for mine, theirs in zip(plain.parameters(), spread.parameters(), strict=True):
            torch.testing.assert_close(theirs.grad.full_tensor(), mine.grad)
    finally:
        torch.distributed.destroy_process_group()
