"""Packed linear layers compute what plain ones do, and say what they hold."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from skipstone.kernels.linear import StockLinear, survives_half
from skipstone.kernels.modules import PackedLinear, Table
from skipstone.kernels.probe import Kernel, kernel_for

KINDS = ["stock", "float32", "float16", "bfloat16"]


def kernel(kind: str) -> Kernel:
    found = kernel_for(kind)  # type: ignore[arg-type]
    if found.kind != kind:
        pytest.skip(f"no {kind} kernel here: {found.reason}")
    return found


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).half().float()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [False, True])
def test_a_packed_layer_gives_what_a_plain_one_gives_for_any_rows(kind: str, bias: bool) -> None:
    weight, b = numbers(48, 80), numbers(48) if bias else None
    layer = kernel(kind).pack(weight, b)
    for rows in (1, 2, 3, 4, 5, 17):
        x = numbers(rows, 80)
        expected = torch.nn.functional.linear(x, weight, b)
        limit = (0.03 if kind == "bfloat16" else 1e-5) * float(expected.abs().max())
        assert layer(x).dtype == torch.float32
        assert float((layer(x) - expected).abs().max()) <= limit


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_packed_can_be_read_again(kind: str) -> None:
    weight = numbers(32, 64)
    limit = 0.02 if kind == "bfloat16" else 0.0
    assert float((kernel(kind).pack(weight, None).weight() - weight).abs().max()) <= limit


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_a_row_alone_gives_bit_for_bit_what_it_gives_among_others(kind: str) -> None:
    layer, x = kernel(kind).pack(numbers(64, 1536), None), numbers(9, 1536)
    together = layer(x)
    for row in range(9):
        assert float((layer(x[row : row + 1]) - together[row]).abs().max()) <= 1e-4  # FBGEMM may move by rounding
    if kind == "float32":
        assert torch.equal(layer(x[3:4])[0], together[3])


def test_a_packed_module_takes_any_leading_dimensions_and_copies_to_a_plain_one() -> None:
    weight, bias = numbers(24, 16), numbers(24)
    module = PackedLinear(kernel("float16").pack(weight, bias), 16, 24)
    x = numbers(2, 3, 16)
    assert torch.allclose(module(x), torch.nn.functional.linear(x, weight, bias), atol=1e-4)
    plain = copy.deepcopy(module)
    assert type(plain) is nn.Linear
    assert torch.equal(plain.weight, weight)
    assert plain.bias is not None
    assert torch.equal(plain.bias, bias)


def test_a_table_keeps_half_precision_rows_and_reads_them_wide() -> None:
    rows = numbers(10, 4)
    table = Table(rows.half(), torch.float32)
    assert torch.equal(table(torch.tensor([[3, 3, 9]])), rows[[3, 3, 9]][None])
    assert torch.equal(copy.deepcopy(table).weight, rows)


def test_float16_survival_is_told_exactly() -> None:
    assert survives_half(torch.tensor([1.0, 0.5, 65504.0, 2.0**-24]))
    assert not survives_half(torch.tensor([1.0, 1e-9]))
    assert not survives_half(torch.tensor([70000.0]))
    assert not survives_half(torch.tensor([1.0 + 2.0**-12]))


def test_a_kernel_that_does_not_work_here_is_replaced_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("no such engine\nand more")

    monkeypatch.setattr("skipstone.kernels.probe.half_linear", broken)
    found = kernel_for("float16")
    assert (found.kind, found.pack, found.reason) == ("stock", StockLinear, "no such engine")


def test_a_kernel_that_computes_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(StockLinear):
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return super().__call__(x) * 1.001

    monkeypatch.setattr("skipstone.kernels.probe.half_linear", Wrong)
    found = kernel_for("float16")
    assert found.kind == "stock"
    assert "off by" in found.reason
