"""Texts to rows: what is predicted, what is not, and how rows are filled."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_folder import EOS, save_tokenizer

from skipstone.errors import UsageError
from skipstone.hf.tokenizer import HFTokenizer
from skipstone.train.data import Rows, read_rows, split

HELLO = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    return HFTokenizer.load(folder)


def _jsonl(folder: Path, *entries: Any, name: str = "data.jsonl") -> Path:
    content = "\n".join(json.dumps(entry) for entry in entries).encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return folder / name


def _learnt(rows: Rows, tokenizer: HFTokenizer) -> str:
    """What is to be predicted, as text with its special tokens."""
    labels = torch.cat([row["labels"] for row in rows.rows])
    return str(tokenizer.tokenizer.decode(labels[labels != -100].tolist()))


def test_of_a_text_all_but_the_first_token_is_predicted_and_its_end(tmp_path: Path, tokenizer: HFTokenizer) -> None:
    rows = read_rows([_jsonl(tmp_path, {"text": "abcd"})], tokenizer, 8, 0)
    assert _learnt(rows, tokenizer) == "bcd<|end|>"
    assert rows[0]["input_ids"].tolist()[4:] == [EOS] * 4
    assert rows[0]["position_ids"].tolist() == [0, 1, 2, 3, 4, 0, 1, 2]


def test_of_a_chat_only_what_the_assistant_says_is_predicted(tmp_path: Path, tokenizer: HFTokenizer) -> None:
    messages = [{"role": "system", "content": "be kind"}, *HELLO["messages"], *HELLO["messages"]]
    rows = read_rows([_jsonl(tmp_path, {"messages": messages})], tokenizer, 64, 0)
    assert _learnt(rows, tokenizer) == "yesyes"
    text = tokenizer.tokenizer.decode(rows[0]["input_ids"])
    whole = "<|begin|><|system|>be kind" + 2 * "<|user|>hi<|assistant|>yes"
    assert text.startswith(whole + "<|end|>")


def test_an_empty_answer_is_nothing_to_learn_unless_it_calls_a_tool(tmp_path: Path, tokenizer: HFTokenizer) -> None:
    silent = {"role": "assistant", "content": " "}
    messages = [*HELLO["messages"], {"role": "user", "content": "and"}, silent]
    rows = read_rows([_jsonl(tmp_path, {"messages": messages})], tokenizer, 64, 0)
    assert _learnt(rows, tokenizer) == "yes"
    called = [*messages[:-1], {**silent, "tool_calls": [{"name": "look"}]}]
    assert _learnt(read_rows([_jsonl(tmp_path, {"messages": called})], tokenizer, 64, 0), tokenizer) == "yes "


def test_a_response_is_predicted_and_its_prompt_is_not(tmp_path: Path, tokenizer: HFTokenizer) -> None:
    rows = read_rows([_jsonl(tmp_path, {"prompt": "why", "response": "so"}, name="d.jsonl.gz")], tokenizer, 16, 0)
    assert _learnt(rows, tokenizer) == "so"


def test_without_a_template_a_response_ends_with_the_end_of_text(tmp_path: Path) -> None:
    save_tokenizer(tmp_path, chat=False)
    plain = HFTokenizer.load(tmp_path)
    rows = read_rows([_jsonl(tmp_path, {"prompt": "why", "response": "so"})], plain, 16, 0)
    assert _learnt(rows, plain) == "so<|end|>"
    with pytest.raises(UsageError, match="no chat template"):
        read_rows([_jsonl(tmp_path, HELLO)], plain, 16, 0)


def test_empty_and_over_long_samples_are_counted_and_told(tmp_path: Path, tokenizer: HFTokenizer) -> None:
    chat = {"messages": [HELLO["messages"][0], {"role": "assistant", "content": "x" * 40}]}
    late = {"messages": [{"role": "user", "content": "x" * 40}, HELLO["messages"][1]]}
    data = _jsonl(tmp_path, {"text": " "}, {"text": "a" * 40}, chat, late, {"messages": HELLO["messages"][:1]})
    rows = read_rows([data], tokenizer, 16, 0)
    assert (rows.samples, rows.empty, rows.over_long) == (5, 3, 3)
    assert "3 left out" in rows.told()
    assert "3 longer than a row" in rows.told()


def test_a_text_goes_on_in_the_next_row_and_loses_no_token(tmp_path: Path, tokenizer: HFTokenizer) -> None:
    (tmp_path / "long.txt").write_text("".join(chr(97 + i % 20) for i in range(50)))
    rows = read_rows([tmp_path / "long.txt"], tokenizer, 16, 0)
    tokens = torch.cat([row["input_ids"] for row in rows.rows])
    assert tokenizer.decode(tokens.tolist()) == (tmp_path / "long.txt").read_text()
    assert all(int(row["labels"][0]) == -100 for row in rows.rows)


def test_a_last_token_alone_makes_no_row(tmp_path: Path, tokenizer: HFTokenizer) -> None:
    (tmp_path / "text.txt").write_text("".join(chr(97 + i % 20) for i in range(32)))
    length = len(tokenizer.encode((tmp_path / "text.txt").read_text()))  # and the end of the text
    rows = read_rows([tmp_path / "text.txt"], tokenizer, length, 0)
    assert [int((row["labels"] != -100).sum()) for row in rows.rows] == [length - 1]


def test_of_rows_held_out_none_is_the_rest_of_the_data(tmp_path: Path, tokenizer: HFTokenizer) -> None:
    rows = read_rows([_jsonl(tmp_path, *({"text": chr(97 + i) * 5} for i in range(21)))], tokenizer, 12, 0)
    train, held = split(rows, 0.1, 100)
    assert len(train) + len(held) == len(rows)
    assert all(int(row["labels"][-1]) != -100 for row in held.rows)
    assert any(int(row["labels"][-1]) == -100 for row in train.rows)


def test_the_seed_alone_decides_the_order(tmp_path: Path, tokenizer: HFTokenizer) -> None:
    data = [_jsonl(tmp_path, *({"text": chr(97 + i) * 5} for i in range(20)))]

    def order(seed: int) -> list[Any]:
        return [row["input_ids"].tolist() for row in read_rows(data, tokenizer, 6, seed).rows]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1)) == sorted(order(2))


def test_rows_held_out_are_not_trained_on(tmp_path: Path, tokenizer: HFTokenizer) -> None:
    rows = read_rows([_jsonl(tmp_path, *({"text": chr(97 + i) * 5} for i in range(20)))], tokenizer, 6, 0)
    train, held = split(rows, 0.2, 100)
    assert (len(train), len(held)) == (16, 4)
    assert train.labelled + held.labelled == rows.labelled
    with pytest.raises(UsageError, match="too few to hold some out"):
        split(held, 1.0, 100)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1: not JSON"),
        ("[1]", "not a JSON object"),
        ('{"question": "x"}', "no text among its fields .question."),
        ('{"text": 3}', '"text" is a int'),
        ('{"text": "half \\ud83d"}', "line 1: half a character"),
        ('{"messages": [{"role": "user", "content": "\\ud83d"}]}', "line 1: half a character"),
        ('{"messages": ["x"]}', "list of objects with role and content"),
        ('{"text": ""}', "none of 1 samples has a token to predict"),
        ("", "none of 0 samples"),
    ],
)
def test_data_that_cannot_be_trained_on_is_refused(
    tmp_path: Path, tokenizer: HFTokenizer, line: str, said: str
) -> None:
    (tmp_path / "bad.jsonl").write_text(line)
    with pytest.raises(UsageError, match=said):
        read_rows([tmp_path / "bad.jsonl"], tokenizer, 16, 0)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path, tokenizer: HFTokenizer) -> None:
    with pytest.raises(UsageError, match=r"nothing.txt cannot be read: No such file"):
        read_rows([tmp_path / "nothing.txt"], tokenizer, 16, 0)
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_rows([tmp_path / "bytes.txt"], tokenizer, 16, 0)


def test_rows_spread_over_a_text_are_at_even_distances_and_no_more_than_there_are(
    tokenizer: HFTokenizer, tmp_path: Path
) -> None:
    rows = read_rows([_jsonl(tmp_path, {"text": "yes " * 200})], tokenizer, 16, 0)
    spread = rows.spread(3)
    assert [
        torch.equal(row["input_ids"], rows[place]["input_ids"])
        for row, place in zip(spread.rows, (0, len(rows) // 3, 2 * len(rows) // 3), strict=True)
    ] == [True] * 3
    assert len(rows.spread(10_000)) == len(rows)
    assert [len(one) for one in rows.spread(2).one_by_one()] == [1, 1]


def test_of_a_chat_that_the_assistant_opens_the_templates_own_words_are_not_predicted(
    tmp_path: Path, tokenizer: HFTokenizer
) -> None:
    for said in ("welcome", "assistant", ""):
        messages = [{"role": "assistant", "content": said}, *HELLO["messages"]]
        rows = read_rows([_jsonl(tmp_path, {"messages": messages})], tokenizer, 64, 0)
        assert _learnt(rows, tokenizer) == f"{said}yes"
