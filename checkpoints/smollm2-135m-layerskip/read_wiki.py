"""Write articles of Wikipedia as plain text, in pieces of some 2,000 letters, out of a dump of it.

Usage: read_wiki.py DUMP OUTPUT [--pieces 400]        DUMP is pages-articles.xml.bz2, or a part of one

Needs mwparserfromhell. Lines of prose are kept; tables, lists, references and headings are not. Every tenth article is
left out.
"""

from __future__ import annotations

import argparse
import bz2
import json
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import mwparserfromhell
from mwparserfromhell.wikicode import Wikicode

_LEAST_MARKUP, _LEAST_WORDS = 2000, 20  # shorter pages are redirects, shorter lines no sentences
_LETTERS, _LEAST_LETTERS = 2000, 500  # of a piece
_LEFT_OUT = 10  # one article of so many, for who wants to look at texts of the kind that were not trained on
_SEED = 14


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--pieces", type=int, default=400)
    given = parser.parse_args()
    articles = [text for number, text in enumerate(_articles(given.dump)) if number % _LEFT_OUT]
    pieces = [piece for text in articles for piece in _pieces(text)]
    random.Random(_SEED).shuffle(pieces)
    lines = [json.dumps({"text": piece}) + "\n" for piece in pieces[: given.pieces]]
    given.output.write_text("".join(lines))
    print(f"{len(articles)} articles: {len(lines)} of {len(pieces)} pieces, {sum(map(len, lines)):,} letters")


def _articles(dump: Path) -> Iterator[str]:
    with bz2.open(dump) as file:
        for _, element in ElementTree.iterparse(file):
            if element.tag.endswith("}page"):
                markup = element.findtext(".//{*}text") or ""
                if element.findtext("{*}ns") == "0" and len(markup) >= _LEAST_MARKUP:  # articles are namespace 0
                    yield _plain(markup)
                element.clear()


def _plain(markup: str) -> str:
    code = mwparserfromhell.parse(markup)
    _drop(code, code.filter_tags(matches=lambda node: str(node.tag) in ("ref", "table", "gallery", "math")))
    _drop(code, code.filter_wikilinks(matches=lambda node: re.match("(File|Image|Category):", str(node.title))))
    lines = (line.strip() for line in code.strip_code(collapse=True).split("\n"))
    return "\n".join(line for line in lines if len(line.split()) >= _LEAST_WORDS and line[0] not in "*#:;|!")


def _drop(code: Wikicode, nodes: list[object]) -> None:
    for node in nodes:
        with suppress(ValueError):  # within one that is gone already
            code.remove(node)


def _pieces(text: str) -> Iterator[str]:
    """Whole lines, until there are letters enough."""
    piece = ""
    for line in text.split("\n"):
        piece += line + "\n"
        if len(piece) > _LETTERS:
            yield piece
            piece = ""
    if len(piece) > _LEAST_LETTERS:
        yield piece


if __name__ == "__main__":
    main()
