"""Prompts files: text or JSON lines, and errors that name file, line and what is wrong."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from skipstone.errors import UsageError
from skipstone.text.prompts_file import read_prompts

DATA = Path(__file__).parents[3] / "shared" / "data"


def write(path: Path, *entries: Any) -> Path:
    path.write_text("\n".join(json.dumps(entry) for entry in entries), encoding="utf-8")
    return path


def test_text_is_one_prompt_a_line_without_the_blank_ones(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_bytes("\ufeffone\r\n\n  two \u2028 still two\n\t\n{three}".encode())
    assert read_prompts(file) == ["one", "  two \u2028 still two", "{three}"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"task_id": 1, "prompt": "p", "text": "no"}, "p"),
        ({"prompt": [1, 2]}, [1, 2]),
        ({"messages": [{"role": "user", "content": "hi"}]}, [{"role": "user", "content": "hi"}]),
        ({"turns": ["first", "second"], "category": "math"}, "first"),
        ({"question": "q", "answer": "a"}, "q"),
        ({"article": "long", "highlights": "short"}, "long"),
        ({"instruction": "do", "input": "this", "output": "x"}, "do\n\nthis"),
        ({"instruction": "do", "input": ""}, "do"),
        ({"text": "t"}, "t"),
    ],
)
def test_a_json_object_gives_the_first_field_that_is_a_prompt(tmp_path: Path, entry: Any, expected: Any) -> None:
    assert read_prompts(write(tmp_path / "prompts.jsonl", entry)) == [expected]


@pytest.mark.parametrize("name", ["prompts.jsonl", "prompts", "prompts.json", "prompts.data"])
def test_json_lines_are_known_by_their_name_or_their_first_line(tmp_path: Path, name: str) -> None:
    assert read_prompts(write(tmp_path / name, {"text": "one"}, {"text": "two"})) == ["one", "two"]


def test_a_packed_file_is_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"text": "one"}\n'))
    assert read_prompts(file) == ["one"]


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "one"}\n{"text": "two"}\n')))
    assert read_prompts("-") == ["one", "two"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"text": "x"', "not JSON .*: write one object a line"),
        ("[1, 2]", "not a JSON object but a list: write one object a line"),
        ("3", "not a JSON object but a number"),
        ('{"answer": 1, "id": 2}', r"no prompt among its fields \(answer, id\): name it one of prompt, messages"),
        ("{}", r"no prompt among its fields \(nothing\)"),
        ('{"prompt": null}', '"prompt" is null: it must be text'),
        ('{"prompt": ""}', '"prompt" is empty: it must be text'),
        ('{"prompt": true}', '"prompt" is true or false: it must be text'),
        ('{"messages": "hi"}', '"messages" is text: it must be a list of messages'),
        ('{"messages": []}', '"messages" is empty: it must be a list of messages'),
        ('{"messages": [{"content": "hi"}]}', "message 1 has no role"),
        ('{"turns": []}', '"turns" is empty'),
        ('{"turns": [3]}', '"turns" is a number'),
        ('{"text": "\\ud83d"}', r"the prompt has a lone surrogate \(\\ud83d\) at character 1"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"text": "fine"}\n\n' + line + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match=rf"prompts\.jsonl, line 3: {says}") as caught:
        read_prompts(file)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_text_is_refused_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_bytes(b"fine\nnot \xff fine\n")
    with pytest.raises(UsageError, match=r"line 2 is not UTF-8 text \(byte 0xff at offset 9\): save it as UTF-8"):
        read_prompts(file)


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.txt cannot be read: No such file or directory"):
        read_prompts(tmp_path / "none.txt")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_prompts(tmp_path)


@pytest.mark.parametrize(
    "content", [b"plain", gzip.compress(b"some text, cut off", mtime=0)[:-9], b""], ids=["plain", "cut off", "empty"]
)
def test_a_packed_file_that_is_damaged_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "prompts.txt.gz"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"prompts\.txt\.gz (cannot be read|holds no prompt)"):
        read_prompts(file)


def test_a_file_without_prompts_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("\n \n")
    with pytest.raises(UsageError, match="holds no prompt: write one a line"):
        read_prompts(file)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the evaluation data is not at {DATA}")
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("cnn_dm_40.jsonl", 40),
        ("dolly_151.jsonl", 151),
        ("gsm8k_test_200.jsonl", 200),
        ("gsm8k_train.jsonl.gz", 7473),
        ("humaneval.jsonl", 164),
        ("python311_docs.jsonl.gz", 388),
        ("self_instruct_427.jsonl", 427),
        ("spec_bench_60.jsonl", 60),
        ("tinystories_train.jsonl.gz", 2316),
    ],
)
def test_real_data_reads_whole(name: str, count: int) -> None:
    prompts = read_prompts(DATA / name)
    assert len(prompts) == count
    assert all(isinstance(prompt, str) and prompt for prompt in prompts)


def test_the_prompts_of_the_readme_are_ten_questions() -> None:
    prompts = read_prompts(Path(__file__).parents[2] / "examples" / "questions.jsonl")
    assert len(set(map(str, prompts))) == 10
