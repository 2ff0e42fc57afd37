"""What a model sees of a row: each of the documents packed in it as if it were alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from zoo import FIRST, VOCAB, ZOO, network

from skipstone.errors import SkipstoneError
from skipstone.train.batch import packed_together, run
from skipstone.train.forward import exits

FIRST_LENGTH, LENGTH = 4, 9
APART = [name for name in FIRST if not packed_together(ZOO[name].model_type)]


def _second(name: str, first: list[int]) -> Tensor:
    """[1, n, H] behind the last layer, of the document that follows ``first`` in a row."""
    model = network(name).model
    tokens = torch.tensor([[*first, *((3 + 11 * n) % VOCAB for n in range(LENGTH - FIRST_LENGTH))]])
    positions = torch.tensor([[*range(FIRST_LENGTH), *range(LENGTH - FIRST_LENGTH)]])
    try:
        with torch.no_grad(), exits(model, [2]) as hidden:
            run(model, model, {"input_ids": tokens, "position_ids": positions})
    except SkipstoneError as error:
        pytest.skip(f"not trained: {error}")
    return hidden[2][:, FIRST_LENGTH:]


@pytest.mark.parametrize("name", APART)
def test_documents_of_a_row_do_not_see_each_other(name: str) -> None:
    torch.testing.assert_close(_second(name, [5, 6, 7, 8]), _second(name, [9, 2, 30, 1]))


@pytest.mark.parametrize("name", [name for name in FIRST if packed_together(ZOO[name].model_type)])
def test_the_types_that_are_told_to_pack_together_do(name: str) -> None:
    assert not torch.allclose(_second(name, [5, 6, 7, 8]), _second(name, [9, 2, 30, 1]))
