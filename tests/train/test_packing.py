"""Documents packed into rows: every row as full as it can be, and no token looked at more than once."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from skipstone.train.data import pack
from skipstone.train.encode import Document


def _by_the_rest(documents: list[Document], length: int) -> Iterator[list[Document]]:
    """The rule in its plainest form: what does not fit is a document of its own."""
    row: list[Document] = []
    room = length
    for document in documents:
        rest = document
        while len(rest.tokens) > 1:
            if len(rest.tokens) > room and not (rest.divisible and room > 1):
                yield row
                row, room = [], length
                continue
            taken = rest.part(0, room)
            rest = rest.part(len(taken.tokens), len(rest.tokens))
            row.append(taken)
            room -= len(taken.tokens)
    if row:
        yield row


@pytest.mark.parametrize("seed", range(50))
def test_rows_are_those_of_the_plain_rule(seed: int) -> None:
    draw = random.Random(seed)
    length = draw.randint(2, 12)
    documents = []
    for _ in range(draw.randint(1, 8)):
        divisible = draw.random() < 0.6
        tokens = tuple(draw.randrange(99) for _ in range(draw.randint(0, 40 if divisible else length)))
        documents.append(Document(tokens, tokens[::-1], divisible))
    assert list(pack(documents, length)) == list(_by_the_rest(documents, length))


def test_a_long_text_is_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = []
    part = Document.part

    def counted(self: Document, start: int, stop: int) -> Document:
        copied.append(len((made := part(self, start, stop)).tokens))
        return made

    monkeypatch.setattr(Document, "part", counted)
    tokens = tuple(range(4000))
    assert len(list(pack([Document(tokens, tokens, True)], 16))) == 250
    assert sum(copied) == len(tokens)
