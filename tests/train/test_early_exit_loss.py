"""The early-exit loss: that of all logits at once, without ever having them."""

import copy
import math
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from skipstone.errors import TrainingError, UsageError
from skipstone.hf.head import Head
from skipstone.train import EarlyExitLoss, Teacher

B, N, H, V = 2, 7, 6, 11
WEIGHTS = {1: 0.25, 3: 0.75}
LABELS = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [-100, -100, -100, 5, 3, -100, 8]])  # a prompt, and a hole
Numbers = dict[str, Tensor]


def _head(seed: int = 0, finish: Callable[[Tensor], Tensor] | None = None) -> Head:
    torch.manual_seed(seed)
    return Head(nn.LayerNorm(H).double(), None, nn.Linear(H, V).double(), finish)


def _hidden(seed: int = 1, layers: Iterable[int] = WEIGHTS) -> dict[int, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    draw = {layer: torch.randn(B, N, H, generator=generator, dtype=torch.float64) for layer in layers}
    return {layer: x.requires_grad_() for layer, x in draw.items()}


def _naive(head: Head, hidden: dict[int, Tensor], labels: Tensor, teacher: Teacher | None = None) -> Tensor:
    """The formula, all logits at once."""
    valid = labels[:, 1:] != -100
    total = torch.zeros((), dtype=torch.float64)
    for layer, weight in WEIGHTS.items():
        logits = head(hidden[layer])[:, :-1][valid]
        loss = F.cross_entropy(logits, labels[:, 1:][valid])
        if teacher is not None:
            T, alpha = teacher.temperature, teacher.label_share
            target = (teacher.head(teacher.hidden)[:, :-1][valid] / T).softmax(-1)
            soft = -(target * (logits / T).log_softmax(-1)).sum(-1) + (target * target.log()).sum(-1)
            loss = alpha * loss + (1 - alpha) * T**2 * soft.mean()
        total = total + weight * loss
    return total


def _gradients(loss: Tensor, head: Head, hidden: dict[int, Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(loss, [*hidden.values(), *head.norm.parameters(), *head.linear.parameters()]))


def _assert_equal(ours: list[Tensor], naive: list[Tensor]) -> None:
    for mine, theirs in zip(ours, naive, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


@given(st.integers(1, 15), st.booleans())
def test_loss_and_gradients_are_those_of_all_logits_at_once_whatever_the_chunk(chunk: int, capped: bool):
    head = _head(finish=(lambda logits: torch.tanh(logits / 3) * 3) if capped else None)
    hidden = _hidden()
    ours, naive = EarlyExitLoss(head, chunk)(hidden, LABELS, WEIGHTS).total, _naive(head, hidden, LABELS)
    _assert_equal([ours, *_gradients(ours, head, hidden)], [naive, *_gradients(naive, head, hidden)])


@given(st.integers(1, 15), st.floats(0.5, 4), st.floats(0, 1))
def test_loss_and_gradients_with_a_teacher_are_those_of_all_logits_at_once(
    chunk: int, temperature: float, share: float
):
    head, hidden = _head(), _hidden()
    teacher = Teacher(_hidden(seed=9)[3], _head(seed=5), temperature, share)
    ours = EarlyExitLoss(head, chunk)(hidden, LABELS, WEIGHTS, teacher).total
    naive = _naive(head, hidden, LABELS, replace(teacher, hidden=teacher.hidden.detach()))
    _assert_equal([ours, *_gradients(ours, head, hidden)], [naive, *_gradients(naive, head, hidden)])


def test_no_more_logits_exist_at_a_time_than_those_of_one_chunk_at_one_exit():
    alive: list[weakref.ref[Tensor]] = []
    shapes: list[torch.Size] = []

    def watched(logits: Tensor) -> Tensor:
        assert not [logits for one in alive if one() is not None]
        alive.append(weakref.ref(logits))
        shapes.append(logits.shape)
        return logits * 1

    head, hidden = _head(finish=watched), _hidden()
    EarlyExitLoss(head, 3)(hidden, LABELS, WEIGHTS).total.backward()
    assert [list(shape) for shape in shapes] == [[3, V]] * 6  # nine labels, two exits


def test_tokens_without_a_label_do_not_matter_and_get_no_gradient():
    head, hidden = _head(), _hidden()
    EarlyExitLoss(head)(hidden, LABELS, WEIGHTS).total.backward()
    other = {layer: x.detach().clone() for layer, x in hidden.items()}
    unread = F.pad(LABELS[:, 1:], (0, 1), value=-100) == -100
    for layer, x in other.items():
        assert not hidden[layer].grad[unread].any()
        assert hidden[layer].grad[~unread].any(-1).all()
        x[unread] = 1e9
    assert EarlyExitLoss(head)(other, LABELS, WEIGHTS).by_layer == EarlyExitLoss(head)(hidden, LABELS, WEIGHTS).by_layer


def test_a_batch_without_labels_is_told_and_moves_nothing():
    head, hidden = _head(), _hidden()
    for labels in (torch.full((B, N), -100), torch.tensor([[5] + [-100] * (N - 1)] * B)):
        losses = EarlyExitLoss(head)(hidden, labels, WEIGHTS)
        assert losses.tokens == 0
        assert losses.empty_rows == B
        assert losses.by_layer == {1: 0.0, 3: 0.0}
        assert not any(gradient.any() for gradient in _gradients(losses.total, head, hidden))


def test_rows_without_labels_are_counted_and_change_nothing():
    head, hidden = _head(), _hidden()
    one, first = LABELS.index_fill(0, torch.tensor([1]), -100), {layer: x[:1] for layer, x in hidden.items()}
    with_empty, without = EarlyExitLoss(head)(hidden, one, WEIGHTS), EarlyExitLoss(head)(first, one[:1], WEIGHTS)
    assert (with_empty.empty_rows, without.empty_rows) == (1, 0)
    torch.testing.assert_close(with_empty.total, without.total)


@pytest.mark.parametrize("label", [-1, V])
def test_labels_outside_the_vocabulary_are_refused(label: int):
    labels = LABELS.clone()
    labels[0, 3] = label
    with pytest.raises(UsageError, match=rf"label {label} in a vocabulary of 11 tokens"):
        EarlyExitLoss(_head())(_hidden(), labels, WEIGHTS)


def test_micro_batches_add_up_to_the_batch_when_divided_by_all_its_tokens():
    head, hidden = _head(), _hidden()
    loss = EarlyExitLoss(head)
    whole = loss(hidden, LABELS, WEIGHTS)
    rows = [{layer: x[row : row + 1] for layer, x in hidden.items()} for row in range(B)]
    parts = [loss(x, LABELS[row : row + 1], WEIGHTS, divisor=whole.tokens) for row, x in enumerate(rows)]
    assert sum(part.tokens for part in parts) == whole.tokens == 9
    torch.testing.assert_close(sum(part.total for part in parts), whole.total)


def test_each_exit_is_reported_and_the_total_weighs_them():
    losses = EarlyExitLoss(_head(), 4)(_hidden(), LABELS, WEIGHTS)
    assert losses.total.item() == pytest.approx(sum(WEIGHTS[layer] * loss for layer, loss in losses.by_layer.items()))
    assert losses.by_layer[1] != losses.by_layer[3]


def test_an_exit_without_weight_is_not_computed():
    head, hidden = _head(), _hidden(layers=[0, 1, 3])
    losses = EarlyExitLoss(head)(hidden, LABELS, {0: 0.0, **WEIGHTS})
    assert set(losses.by_layer) == {1, 3}
    torch.testing.assert_close(losses.total, _naive(head, hidden, LABELS))


def test_a_model_that_is_its_own_teacher_has_no_loss_and_no_gradient():
    head, hidden = _head(), _hidden()
    losses = EarlyExitLoss(head)(hidden, LABELS, {3: 1.0}, Teacher(hidden[3], copy.deepcopy(head), 2.0))
    assert losses.by_layer[3] == pytest.approx(0, abs=1e-12)
    assert float(torch.autograd.grad(losses.total, hidden[3])[0].abs().max()) < 1e-12


def test_a_teacher_gets_no_gradient():
    head, hidden, teacher = _head(), _hidden(), Teacher(_hidden(seed=9)[3], _head(seed=5))
    EarlyExitLoss(head)(hidden, LABELS, WEIGHTS, teacher).total.backward()
    assert teacher.hidden.grad is None
    assert teacher.head.linear.weight.grad is None


def test_what_is_frozen_gets_no_gradient_and_the_rest_the_same():
    head, hidden = _head(), _hidden()
    wanted = _gradients(_naive(head, hidden, LABELS), head, hidden)
    head.linear.requires_grad_(False)
    EarlyExitLoss(head, 3)(hidden, LABELS, WEIGHTS).total.backward()
    assert head.linear.weight.grad is None
    _assert_equal([hidden[1].grad, hidden[3].grad, head.norm.weight.grad], wanted[:3])


def test_a_frozen_model_below_still_trains_its_head():
    head = _head()
    hidden = {layer: x.detach() for layer, x in _hidden().items()}
    wanted = torch.autograd.grad(_naive(head, hidden, LABELS), head.linear.weight)
    EarlyExitLoss(head, 3)(hidden, LABELS, WEIGHTS).total.backward()
    _assert_equal([head.linear.weight.grad], list(wanted))


def test_without_gradients_there_is_only_a_loss():
    followed: list[bool] = []
    head, hidden = _head(), _hidden()
    watched = replace(head, finish=lambda logits: followed.append(logits.requires_grad) or logits)
    with torch.no_grad():
        losses = EarlyExitLoss(watched, 3)(hidden, LABELS, WEIGHTS)
    assert not losses.total.requires_grad
    assert followed == [False] * 6
    torch.testing.assert_close(losses.total, _naive(head, hidden, LABELS).detach())


def test_sixteen_bit_models_get_gradients_near_those_in_full():
    head, hidden = _head(), _hidden()
    wanted = _gradients(_naive(head, hidden, LABELS), head, hidden)
    half = replace(head, norm=copy.deepcopy(head.norm).bfloat16(), linear=copy.deepcopy(head.linear).bfloat16())
    small = {layer: x.detach().bfloat16().requires_grad_() for layer, x in hidden.items()}
    losses = EarlyExitLoss(half, 2)(small, LABELS, WEIGHTS)
    assert losses.total.dtype == torch.float32
    for mine, theirs in zip(_gradients(losses.total, half, small), wanted, strict=True):
        assert mine.dtype == torch.bfloat16
        torch.testing.assert_close(mine.double(), theirs, rtol=0.05, atol=0.02)


def test_sixteen_bit_logits_are_summed_up_in_thirty_two():
    head, hidden = _head(), _hidden()
    half = replace(head, norm=head.norm.bfloat16(), linear=head.linear.bfloat16())
    small = {layer: x.detach().bfloat16() for layer, x in hidden.items()}
    exact = replace(half, finish=lambda logits: logits.double())
    for teacher in (None, Teacher(small[1], exact, label_share=0.5)):
        mine = EarlyExitLoss(half)(small, LABELS, WEIGHTS, teacher).by_layer
        assert mine == pytest.approx(EarlyExitLoss(exact)(small, LABELS, WEIGHTS, teacher).by_layer, rel=1e-6)


def test_sixteen_bit_gradients_of_many_chunks_add_up_in_thirty_two():
    head, tokens = _head(), torch.arange(400).reshape(2, 200) % V
    half = replace(head, norm=head.norm.bfloat16(), linear=head.linear.bfloat16())
    hidden = {3: torch.ones(2, 200, H).bfloat16() * torch.arange(H)}
    many, one = [EarlyExitLoss(half, chunk)(hidden, tokens, {3: 1.0}).total for chunk in (1, 400)]
    bias = half.linear.bias
    torch.testing.assert_close(
        torch.autograd.grad(many, bias)[0], torch.autograd.grad(one, bias)[0], rtol=0.01, atol=1e-4
    )


def test_going_backward_twice_gives_the_same_twice():
    head, hidden = _head(), _hidden()
    total = EarlyExitLoss(head, 3)(hidden, LABELS, WEIGHTS).total
    first = torch.autograd.grad(total, hidden[1], retain_graph=True)
    assert torch.equal(first[0], torch.autograd.grad(total, hidden[1])[0])


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_an_error_that_names_the_layer(poison: float):
    hidden = _hidden()
    hidden[3].data[0, 2, 0] = poison
    with pytest.raises(TrainingError, match=r"exit 4 is nan: .* learning rate"):
        EarlyExitLoss(_head())(hidden, LABELS, WEIGHTS)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"weights": {2: 1.0}}, r"after layer 2, which has a weight: there are \[1, 3\]"),
        ({"weights": {}}, "no exit that counts"),
        ({"labels": LABELS[:, :-1]}, r"\[2, 7, 6\], labels \[2, 6\]"),
        ({"labels": LABELS[0]}, r"labels \[7\]"),
        ({"teacher": Teacher(torch.zeros(B, N - 1, H), _head())}, "the teacher's hidden states"),
    ],
)
def test_what_does_not_fit_together_is_refused(changed: dict[str, Any], said: str):
    with pytest.raises(UsageError, match=said):
        EarlyExitLoss(_head())(**{"hidden": _hidden(), "labels": LABELS, "weights": WEIGHTS, **changed})


def test_settings_that_make_no_sense_are_refused():
    hidden = torch.zeros(B, N, H)
    with pytest.raises(UsageError, match="chunks of 0"):
        EarlyExitLoss(_head(), 0)
    with pytest.raises(UsageError, match="temperature 0"):
        Teacher(hidden, _head(), temperature=0)
    with pytest.raises(UsageError, match=r"label_share of 1\.5"):
        Teacher(hidden, _head(), label_share=1.5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_gradients_are_near_those_in_full_though_the_teacher_shares_the_head(dtype: torch.dtype):
    head, hidden = _head(), _hidden()
    still = copy.deepcopy(head)
    for module in (still.norm, still.linear):
        module.requires_grad_(False)
    teacher = Teacher(_hidden(seed=9)[3].detach(), still, label_share=0.5)
    wanted = _gradients(_naive(head, hidden, LABELS, teacher), head, hidden)
    full = replace(head, norm=copy.deepcopy(head.norm).float(), linear=copy.deepcopy(head.linear).float())
    small = {layer: x.detach().float().requires_grad_() for layer, x in hidden.items()}
    with torch.autocast("cpu", dtype):
        shared = replace(teacher, hidden=teacher.hidden.float(), head=full)
        total = EarlyExitLoss(full, 2)(small, LABELS, WEIGHTS, shared).total
    for mine, theirs in zip(_gradients(total, full, small), wanted, strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=0.01, atol=1e-3)
