"""Let the starting model write texts that the later parts are trained on, out of the openings of public ones.

Usage: write_own.py SOURCES OUTPUT [--kind NAME]... [--model smollm2-135m] [--tokens 192] [--rows 32] [--weights auto]
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import skipstone
from skipstone.bench.layerskip.sources import TRAINED_ON, Sources, chat, first_sentences
from skipstone.errors import SkipstoneError

QUESTIONS, STORIES, CHATS, OPENINGS, RANDOM = 240, 160, 200, 200, 60
NAMES, PROSE = 320, 320
MORE_QUESTIONS, MORE_STORIES, MORE_CHATS = 260, 220, 200
THIRD = ("sums", "stories", "chats", "openings", "anything")
FOURTH = ("names", "prose")
FIFTH = ("more sums", "more stories", "more chats")


@dataclass(frozen=True)
class Kind:
    """Prompts of one kind; ``sampled`` is the temperature, 0 for what plain decoding writes."""

    name: str
    prompts: list[str]
    chat: bool
    sampled: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--weights", default="auto")
    parser.add_argument(
        "--kind", action="append", choices=[*THIRD, *FOURTH, *FIFTH], help="those of the third part, if not given"
    )
    parser.add_argument("--tokens", type=int, default=192)
    parser.add_argument("--rows", type=int, default=32)
    given = parser.parse_args()
    sources = Sources(given.sources)
    sources.need(TRAINED_ON)
    model = skipstone.load(given.model, weights=given.weights)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    with given.output.open("w") as file:
        kinds = _kinds(sources, model.tokenizer.tokenizer)
        for kind in (kind for kind in kinds if kind.name in (given.kind or THIRD)):
            for number, text in enumerate(_written(model, kind, given)):
                file.write(json.dumps({"text": text}) + "\n")
                print(f"\r{kind.name}: {number + 1} of {len(kind.prompts)}", end="", flush=True)
            print()


def _kinds(sources: Sources, tokenizer: Any) -> Iterator[Kind]:
    draw = random.Random(2)
    maths = [row["question"] for row in sources.rows("gsm8k_train.jsonl.gz")]
    asked = [
        "\n".join(filter(None, [row["instruction"], row["input"]]))
        for name in ("dolly_151.jsonl", "self_instruct_427.jsonl")
        for row in sources.rows(name)
    ]
    news = [line for row in sources.rows("cnn_dm_40.jsonl") for line in row["article"].split(". ") if len(line) > 60]
    openings = [" ".join(line.split()[:6]) for line in draw.sample(news, OPENINGS)]
    tokens = [tokenizer.decode([draw.randrange(256, len(tokenizer))]) for _ in range(RANDOM)]
    sums, stories, chats = (
        draw.sample(maths, QUESTIONS),
        first_sentences(draw.sample(sources.stories(), STORIES)),
        [text[:1500] for text in draw.sample(asked, CHATS)],
    )
    yield Kind("sums", sums, chat=True)
    yield Kind("stories", stories, chat=False)
    yield Kind("chats", chats, chat=True)
    yield Kind("openings", openings, chat=False, sampled=1.0)
    yield Kind("anything", [token for token in tokens if token.strip()], chat=False, sampled=1.0)
    yield Kind("names", draw.sample(_about(sources), NAMES), chat=False, sampled=1.0)
    yield Kind("prose", draw.sample(_prose(sources), PROSE), chat=False, sampled=1.0)
    more = sorted({*first_sentences(sources.stories())} - {*stories})
    yield Kind("more sums", draw.sample(sorted({*maths} - {*sums}), MORE_QUESTIONS), chat=True)
    yield Kind("more stories", draw.sample(more, MORE_STORIES), chat=False)
    yield Kind("more chats", draw.sample(sorted({text[:1500] for text in asked} - {*chats}), MORE_CHATS), chat=True)


def _about(sources: Sources) -> list[str]:
    """How an article on something could begin: the names in public texts, as its subject."""
    names = sorted(
        {name for text in _general(sources) for name in re.findall(r"(?<=[a-z,] )[A-Z][a-z]+(?: [A-Z][a-z]+)*", text)}
    )
    return [form.format(name) for form in ("{} is", "{} was", "The history of {}", "{}, one of the") for name in names]


def _prose(sources: Sources) -> list[str]:
    sentences = [sentence.split() for text in _general(sources) for sentence in re.split(r"(?<=[.!?])\s+", text)]
    return sorted({" ".join(words[:5]) for words in sentences if len(words) >= 10})


def _general(sources: Sources) -> list[str]:
    """Texts on anything: what instructions come with, their answers, and news."""
    asked = [row for name in ("dolly_151.jsonl", "self_instruct_427.jsonl") for row in sources.rows(name)]
    return (
        [row["input"] for row in asked]
        + [row["output"] for row in asked]
        + [row["article"] for row in sources.rows("cnn_dm_40.jsonl")]
    )


def _written(model: skipstone.LanguageModel, kind: Kind, given: argparse.Namespace) -> Iterator[str]:
    prompts = [[{"role": "user", "content": text}] if kind.chat else text for text in kind.prompts]
    # no seed: each text draws one, while with one given all would have the same noise, and the same turns of phrase
    settings = {"max_new_tokens": given.tokens, "temperature": kind.sampled}
    for piece in model.stream_batch(prompts, drafter="none", rows=given.rows, **settings):
        if piece.generation is not None:  # an answer that was cut reads as one that ended; the teacher does not say so
            asked, said = kind.prompts[piece.index], piece.generation.text
            yield chat(model.tokenizer, asked, said) if kind.chat else asked + said


if __name__ == "__main__":
    try:
        main()
    except SkipstoneError as error:
        raise SystemExit(f"error: {error}") from None
