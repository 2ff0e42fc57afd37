"""Write the texts that the checkpoint is trained on, and those held out, out of the public files named in README.md.

Usage: make_data.py SOURCES OUTPUT [--model smollm2-135m]
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

import skipstone
from skipstone.bench.layerskip.sources import TRAINED_ON, Sources, chat
from skipstone.errors import SkipstoneError
from skipstone.hf.tokenizer import HFTokenizer

NEEDED = (
    *TRAINED_ON,
    "python311_docs.jsonl.gz",
    "gsm8k_test_200.jsonl",  # from here on held out
    "wikitext2_valid.txt",
)
MATHS, DOCS, DOC_LETTERS = 3600, 150, 6000
MORE_MATHS, MORE_STORIES, MORE_DOCS = 2000, 750, 70  # of the second part, those of maths and documents all new
LAST_MATHS, LAST_STORIES, LAST_DOCS = 1100, 300, 40  # of the third, beside what write_own.py has made; maths new again
BROAD_STORIES, BROAD_DOCS = 200, 80  # of recipe_broad.toml, most of it general text; what maths there are left
# of recipe_wide.toml, beside own texts and Wikipedia; nearly all of it seen before
WIDE_MATHS, WIDE_STORIES, WIDE_ASKED, WIDE_LETTERS, WIDE_NEWS_LETTERS = 1100, 260, 150, 1200, 3000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--model", default="smollm2-135m")
    given = parser.parse_args()
    sources = Sources(given.sources)
    sources.need(NEEDED)
    tokenizer = skipstone.load(given.model).tokenizer
    given.output.mkdir(parents=True, exist_ok=True)
    for name, texts in _sets(sources, tokenizer):
        lines = [json.dumps({"text": text}) + "\n" for text in texts]
        (given.output / f"{name}.jsonl").write_text("".join(lines))
        print(f"{name}: {len(lines)} texts, {sum(map(len, lines)):,} letters")


def _sets(sources: Sources, tokenizer: HFTokenizer) -> Iterator[tuple[str, list[str]]]:
    maths = [chat(tokenizer, row["question"], row["answer"]) for row in sources.rows("gsm8k_train.jsonl.gz")]
    news = [row["article"] for row in sources.rows("cnn_dm_40.jsonl")]
    asked = _asked(sources, tokenizer)
    docs = [row["text"] for row in sources.rows("python311_docs.jsonl.gz")]
    random.Random(0).shuffle(docs)
    yield "train", [*sources.stories(), *maths[:MATHS], *news, *asked, *_cut(docs[:DOCS])]
    stories = random.Random(1).sample(sources.stories(), MORE_STORIES)
    more = [*stories, *maths[MATHS : MATHS + MORE_MATHS], *news, *asked, *_cut(docs[DOCS : DOCS + MORE_DOCS])]
    yield "train_more", more
    stories = random.Random(3).sample(sources.stories(), LAST_STORIES)
    seen, read = MATHS + MORE_MATHS, DOCS + MORE_DOCS
    yield "train_last", [*stories, *maths[seen : seen + LAST_MATHS], *_cut(docs[read : read + LAST_DOCS])]
    seen, read, stories = seen + LAST_MATHS, read + LAST_DOCS, random.Random(4).sample(sources.stories(), BROAD_STORIES)
    yield "train_broad", [*stories, *maths[seen:], *news, *news, *asked, *_cut(docs[read : read + BROAD_DOCS])]
    yield "train_wide", _wide(sources, tokenizer, maths, news)
    for name, texts in sources.held_out(tokenizer).items():
        yield f"held_out_{name}", texts


def _wide(sources: Sources, tokenizer: HFTokenizer, maths: list[str], news: list[str]) -> list[str]:
    maths, stories = (
        random.Random(11).sample(maths, WIDE_MATHS),
        random.Random(12).sample(sources.stories(), WIDE_STORIES),
    )
    asked = random.Random(13).sample(_asked(sources, tokenizer, WIDE_LETTERS), WIDE_ASKED)
    return [*maths, *stories, *(text[:WIDE_NEWS_LETTERS] for text in news), *asked]


def _asked(sources: Sources, tokenizer: HFTokenizer, letters: int | None = None) -> list[str]:
    """Instructions as chats, with at most so many letters of the answer."""
    return [
        chat(tokenizer, "\n".join(filter(None, [row["instruction"], row["input"]])), row["output"][:letters])
        for name in ("dolly_151.jsonl", "self_instruct_427.jsonl")
        for row in sources.rows(name)
    ]


def _cut(docs: list[str]) -> list[str]:
    return [text[:DOC_LETTERS] for text in docs]


if __name__ == "__main__":
    try:
        main()
    except SkipstoneError as error:
        raise SystemExit(f"error: {error}") from None
