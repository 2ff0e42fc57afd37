"""A folder like that of the published files, with texts of our own, short ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

STORIES = 120  # of which the last 116 are held out
_WHO, _WHAT = ["cat", "man", "hen", "boy", "dog"], ["hat", "bin", "ball", "cake", "boat"]


def story(number: int) -> str:
    who, what = _WHO[number % 5], _WHAT[number // 5 % 5]
    return f"The {who} number {number} had a {what}. The {who} and the {what} ran. It was a good day in the end."


def public_texts(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    stories = [json.dumps({"text": story(number)}) + "\n" for number in range(STORIES)]
    (folder / "tinystories_train.jsonl.gz").write_bytes(gzip.compress("".join(stories).encode()))
    asked = [{"question": f"What is {n} and {n}?", "answer": f"It is {2 * n}."} for n in range(20)]
    (folder / "gsm8k_test_200.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    (folder / "wikitext2_valid.txt").write_text("= The hat =\n\nA hat is an article of clothing. " * 20)
    kinds = ("writing", "translation", "roleplay", "reasoning")
    chats = [{"category": kinds[n % 4], "turns": [f"Tell me of {n} hats."]} for n in range(12)]
    (folder / "spec_bench_60.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chats))
    return folder
