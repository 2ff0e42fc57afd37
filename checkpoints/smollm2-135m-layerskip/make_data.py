"""Write the texts that the checkpoint is trained on, and those held out, out of the public files named in README.md.

Usage: make_data.py SOURCES OUTPUT [--model smollm2-135m]
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import skipstone

STORIES_HELD_OUT, MATHS, DOCS, DOC_LETTERS = 116, 3600, 150, 6000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--model", default="smollm2-135m")
    given = parser.parse_args()
    tokenizer: Any = skipstone.load(given.model).tokenizer.tokenizer
    given.output.mkdir(parents=True, exist_ok=True)
    for name, texts in _sets(given.sources, tokenizer):
        lines = [json.dumps({"text": text}) + "\n" for text in texts]
        (given.output / f"{name}.jsonl").write_text("".join(lines))
        print(f"{name}: {len(lines)} texts, {sum(map(len, lines)):,} letters")


def _sets(sources: Path, tokenizer: Any) -> Iterator[tuple[str, list[str]]]:
    stories = [row["text"] for row in _rows(sources / "tinystories_train.jsonl.gz")]
    maths = [_chat(tokenizer, row["question"], row["answer"]) for row in _rows(sources / "gsm8k_train.jsonl.gz")]
    test = [_chat(tokenizer, row["question"], row["answer"]) for row in _rows(sources / "gsm8k_test_200.jsonl")]
    news = [row["article"] for row in _rows(sources / "cnn_dm_40.jsonl")]
    asked = [
        _chat(tokenizer, "\n".join(filter(None, [row["instruction"], row["input"]])), row["output"])
        for name in ("dolly_151.jsonl", "self_instruct_427.jsonl")
        for row in _rows(sources / name)
    ]
    docs = [row["text"] for row in _rows(sources / "python311_docs.jsonl.gz")]
    random.Random(0).shuffle(docs)
    docs = [text[:DOC_LETTERS] for text in docs[:DOCS]]
    yield "train", [*stories[:-STORIES_HELD_OUT], *maths[:MATHS], *news, *asked, *docs]
    yield "held_out_stories", stories[-STORIES_HELD_OUT:]
    yield "held_out_maths", test
    yield "held_out_wikitext", [(sources / "wikitext2_valid.txt").read_text()]


def _chat(tokenizer: Any, asked: str, said: str) -> str:
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]
    return str(tokenizer.apply_chat_template(messages, tokenize=False))


def _rows(file: Path) -> list[dict[str, Any]]:
    content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return [json.loads(line) for line in content.decode().split("\n") if line.strip()]


if __name__ == "__main__":
    main()
