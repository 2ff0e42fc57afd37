"""Kinds of text one after another: summaries, maths, instructions, translations, code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ..layerskip.sources import Sources

_LONGEST = 256  # tokens of a prompt

Row = dict[str, Any]

# by task: the file, fields it must have, and the prompt that a row makes ("": none)
_TASKS: dict[str, tuple[str, tuple[str, ...], Callable[[Row], str]]] = {
    "summary": ("cnn_dm_40.jsonl", ("article",), lambda row: f"Article: {row['article']}\nSummary:"),
    "maths": ("gsm8k_test_200.jsonl", ("question",), lambda row: f"Question: {row['question']}\nAnswer:"),
    "instructions": ("dolly_151.jsonl", ("instruction",), lambda row: f"{row['instruction']}\n"),
    "translation": (
        "spec_bench_60.jsonl",
        ("category", "turns"),
        lambda row: str(row["turns"][0]) if row["category"] == "translation" else "",
    ),
    "code": ("humaneval.jsonl", ("prompt",), lambda row: str(row["prompt"])),
}


def task_prompts(folder: Path | None, encode: Callable[[str], list[int]], count: int) -> dict[str, list[Sequence[int]]]:
    """Token ids of ``count`` prompts of each task, in the order of the stream. Raises UsageError without the files."""
    if folder is None:
        raise UsageError(f"--data is missing: a folder with {', '.join(file for file, _, _ in _TASKS.values())}")
    found: dict[str, list[Sequence[int]]] = {}
    for task, (file, fields, prompt) in _TASKS.items():
        texts = [text for row in Sources(folder).rows(file, *fields) if (text := prompt(row))]
        found[task] = [_shortened(encode(text), task) for text in texts[:count]]
    return found


def _shortened(tokens: list[int], task: str) -> list[int]:
    """A long article loses its middle, never what asks for the summary."""
    if len(tokens) <= _LONGEST:
        return tokens
    return [*tokens[: _LONGEST - 8], *tokens[-8:]] if task == "summary" else tokens[:_LONGEST]
