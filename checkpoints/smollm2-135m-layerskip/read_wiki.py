"""Write articles of Wikipedia as plain text, in pieces of some 2,000 letters, out of a dump of it.

Usage: read_wiki.py DUMP OUTPUT [--pieces 400]        DUMP is pages-articles.xml.bz2, or a part of one

Needs mwparserfromhell. Lines of prose are kept; tables, lists, references and headings are not. Every tenth article is
left out.
"""

from __future__ import annotations

import argparse
import bz2
import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from mwparserfromhell.wikicode import Wikicode

_LEAST_MARKUP, _LEAST_WORDS = 2000, 20  # shorter pages are redirects, shorter lines no sentences
_LETTERS, _LEAST_LETTERS = 2000, 500  # of a piece
_LEFT_OUT = 10  # one article of so many, for who wants to look at texts of the kind that were not trained on
_SEED = 14


def main(argv: Sequence[str] | None = None) -> None:
    """Exits with an error of one line, and OUTPUT as it was, where the dump cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--pieces", type=_count, default=400)
    given = parser.parse_args(argv)
    try:
        _check(given.dump, given.output)
        _write(given.dump, given.output, given.pieces)
    except ValueError as error:
        parser.error(str(error))


def _count(given: str) -> int:
    if not given.isdecimal() or int(given) < 1:
        raise argparse.ArgumentTypeError(f"{given} is no number of pieces: give 1 or more")
    return int(given)


def _check(dump: Path, output: Path) -> None:
    """Before the minutes that reading takes."""
    place = output if output.exists() else output.parent
    if not dump.exists():
        raise ValueError(f"{dump} is not there: give a dump of Wikipedia")
    if output.is_dir() or not output.parent.is_dir() or not os.access(place, os.W_OK):
        raise ValueError(f"{output} cannot be written: choose another OUTPUT")
    if find_spec("mwparserfromhell") is None:
        raise ValueError("mwparserfromhell is missing: pip install mwparserfromhell==0.7.2")


def _write(dump: Path, output: Path, most: int) -> None:
    articles = [text for number, text in enumerate(_articles(dump)) if number % _LEFT_OUT]
    pieces = [piece for text in articles for piece in _pieces(text)]
    random.Random(_SEED).shuffle(pieces)
    lines = [json.dumps({"text": piece}) + "\n" for piece in pieces[:most]]
    try:
        output.write_text("".join(lines))
    except OSError as error:
        raise ValueError(f"{output} cannot be written: {error.strerror}") from error
    print(f"{len(articles)} articles: {len(lines)} of {len(pieces)} pieces, {sum(map(len, lines)):,} letters")


def _articles(dump: Path) -> Iterator[str]:
    for page in _pages(dump):
        markup = page.findtext(".//{*}text") or ""
        if page.findtext("{*}ns") == "0" and len(markup) >= _LEAST_MARKUP:  # articles are namespace 0
            yield _plain(markup)


def _pages(dump: Path) -> Iterator[ElementTree.Element]:
    try:
        with bz2.open(dump) as file:
            for _, element in ElementTree.iterparse(file):
                if element.tag.endswith("}page"):
                    yield element
                    element.clear()
    except (OSError, EOFError, ElementTree.ParseError) as error:
        raise ValueError(f"{dump} cannot be read: {error}") from error


def _plain(markup: str) -> str:
    import mwparserfromhell  # here, so that --help needs none

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
