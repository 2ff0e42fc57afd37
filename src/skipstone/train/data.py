"""Token rows of one length to train on, packed with documents in an order that the seed alone decides."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..errors import UsageError
from ..hf.tokenizer import HFTokenizer
from .early_exit_loss import IGNORED
from .encode import Document, Encoder
from .texts import Sample, read_samples

Row = dict[str, Tensor]  # input_ids, labels, position_ids, each [N]


@dataclass(frozen=True)
class Rows:
    """Rows [N] each, and what became of the samples. Position ids begin anew with each document of a row."""

    rows: tuple[Row, ...]
    samples: int
    empty: int  # samples without a token to predict: left out
    over_long: int  # samples longer than a row: texts go on in the next one, chats are cut
    labelled: int  # tokens to predict

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    def first(self, count: int) -> Rows:
        return _some(self, self.rows[:count])

    def spread(self, count: int) -> Rows:
        """``count`` rows at even distances, or all there are: of a long text not its beginning alone."""
        count = min(count, len(self))
        return _some(self, tuple(self.rows[number * len(self) // count] for number in range(count)))

    def one_by_one(self) -> list[Rows]:
        return [_some(self, (row,)) for row in self.rows]

    def digest(self) -> str:
        """Of all tokens and labels."""
        digest = hashlib.sha256()
        for row in self.rows:
            for name in ("input_ids", "labels"):
                digest.update(row[name].numpy().tobytes())
        return digest.hexdigest()[:32]

    def told(self) -> str:
        """What was read, in one line."""
        notes = [f"{self.samples} samples in {len(self)} rows, {self.labelled} tokens to predict"]
        if self.empty:
            notes.append(f"{self.empty} left out, with nothing to predict: blank, or with a prompt that fills the row")
        if self.over_long:
            notes.append(
                f"{self.over_long} longer than a row (length): texts go on in the next one, chats and responses are cut"
            )
        return "; ".join(notes)


def read_rows(
    paths: Sequence[str | Path], tokenizer: HFTokenizer, length: int, seed: int, *, offline: bool = False
) -> Rows:
    """The rows of ``length`` tokens of some files or data sets of the hub.

    Raises UsageError where nothing is to be learnt from them.
    """
    return rows_of(read_samples(paths, offline=offline), tokenizer, length, seed, ", ".join(map(str, paths)))


def rows_of(samples: Sequence[Sample], tokenizer: HFTokenizer, length: int, seed: int, source: str) -> Rows:
    """The rows of ``length`` tokens of some samples; ``source`` names them in errors, as ``read_rows`` raises them."""
    if length < 2:
        raise UsageError(f"rows of {length} tokens: give a length of 2 or more")
    documents = [Encoder(tokenizer)(sample) for sample in samples]
    whole = [document for document in documents if document.labelled]
    fitting = [_cut(document, length) for document in whole]
    useful = [document for document in fitting if document.labelled]
    if not useful:
        raise UsageError(
            f"{source}: none of {len(documents)} samples has a token to predict within rows of "
            f"{length}: give texts, or chats with an assistant's answer"
        )
    random.Random(seed).shuffle(useful)
    rows = tuple(_row(parts, length, tokenizer.eos_id or 0) for parts in pack(useful, length))
    return Rows(
        rows,
        samples=len(documents),
        empty=len(documents) - len(useful),
        over_long=sum(len(document.tokens) > length for document in whole),
        labelled=sum(int((row["labels"] != IGNORED).sum()) for row in rows),
    )


def split(rows: Rows, share: float, most: int) -> tuple[Rows, Rows]:
    """Rows to train on, and the last full ones held out: ``share`` of all, one at least and ``most`` at most."""
    held = min(max(1, round(share * len(rows))), most)
    full = len(rows) - _part_filled(rows)
    if held >= len(rows):
        raise UsageError(
            f"the data fill {len(rows)} row{'s' * (len(rows) != 1)} only, too few to hold some out for evaluation: "
            "give more, a smaller length, or eval_data"
        )
    held_out = rows.rows[full - held : full] if full >= held + 1 else rows.rows[-held:]
    rest = tuple(row for row in rows.rows if not any(row is each for each in held_out))
    return _some(rows, rest), _some(rows, held_out)


def _part_filled(rows: Rows) -> bool:
    """Whether the last row, where the data ended, is worth less than others."""
    last = rows.rows[-1]["labels"]
    return bool(last[-1] == IGNORED)


def pack(documents: Iterable[Document], length: int) -> Iterator[list[Document]]:
    """What shares a row: each document behind the one before, a divisible one cut where the row ends."""
    row: list[Document] = []
    room = length
    for document in documents:
        start = 0
        while (left := len(document.tokens) - start) > 1:  # of a single one nothing is to be predicted
            if left > room and not (document.divisible and room > 1):
                yield row
                row, room = [], length
                continue
            taken = document.part(start, start + room)
            start += len(taken.tokens)
            row.append(taken)
            room -= len(taken.tokens)
    if row:
        yield row


def _cut(document: Document, length: int) -> Document:
    return document if document.divisible else document.part(0, length)


def _row(parts: Sequence[Document], length: int, filler: int) -> Row:
    tokens: list[int] = []
    labels: list[int] = []
    positions: list[int] = []
    for part in parts:
        tokens += part.tokens
        labels += [IGNORED, *part.labels[1:]]
        positions += range(len(part.tokens))
    empty = length - len(tokens)
    filled = ([*tokens, *[filler] * empty], [*labels, *[IGNORED] * empty], [*positions, *range(empty)])
    return dict(zip(("input_ids", "labels", "position_ids"), map(torch.tensor, filled), strict=True))


def _some(rows: Rows, chosen: tuple[Row, ...]) -> Rows:
    labelled = sum(int((row["labels"] != IGNORED).sum()) for row in chosen)
    return Rows(chosen, rows.samples, rows.empty, rows.over_long, labelled)
