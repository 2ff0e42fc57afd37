"""Texts to train on: JSONL or data sets of the hub with texts, chats or prompts with responses, or plain text."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .hub_data import HubData

_JSON = (".jsonl", ".ndjson", ".json")


@dataclass(frozen=True)
class Text:
    """Plain text: every token of it is to be predicted."""

    text: str


@dataclass(frozen=True)
class Answered:
    """A prompt and its response, of which the response alone is to be predicted."""

    prompt: str
    response: str


@dataclass(frozen=True)
class Chat:
    """Messages with role and content; what the assistant says is to be predicted."""

    messages: tuple[Mapping[str, Any], ...]


Sample = Text | Answered | Chat


def read_samples(names: Sequence[str | Path], *, offline: bool = False) -> list[Sample]:
    """The samples of all files and data sets in order. Raises UsageError, naming the place, for what holds none."""
    return [sample for name in names for sample in _read(name, offline)]


def _read(name: str | Path, offline: bool) -> Iterator[Sample]:
    data = HubData.named(str(name))
    if data is None:
        yield from _read_file(Path(name).expanduser())
        return
    for number, row in enumerate(data.rows(offline=offline), 1):
        yield _sample(row, f"{data}, row {number}")


def _read_file(path: Path) -> Iterator[Sample]:
    content = _content(path)
    if not path.name.lower().removesuffix(".gz").endswith(_JSON):
        yield Text(content)  # a text file is one text
        return
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            where = f"{path}, line {number}"
            yield _sample(_entry(line, where), where)


def _content(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix.lower() == ".gz" else raw).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: save it as UTF-8, or as .jsonl.gz if it is packed") from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"training data {path} cannot be read: {reason}; give a .jsonl, .jsonl.gz or text file"
        ) from error


def _entry(line: str, where: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON ({error}); write one object a line") from error
    if not isinstance(entry, dict):
        raise UsageError(f"{where}: not a JSON object; write one object a line")
    return entry


def _sample(entry: Mapping[str, Any], where: str) -> Sample:
    if "messages" in entry:
        return Chat(_messages(entry["messages"], where))
    if "prompt" in entry and "response" in entry:
        return Answered(_string(entry, "prompt", where), _string(entry, "response", where))
    if "text" in entry:
        return Text(_string(entry, "text", where))
    given = ", ".join(map(str, entry)) or "nothing"
    raise UsageError(f"{where}: no text among its fields ({given}); give text, messages, or prompt and response")


def _string(entry: Mapping[str, Any], field: str, where: str) -> str:
    value = entry[field]
    if not isinstance(value, str):
        raise UsageError(f'{where}: "{field}" is a {type(value).__name__}; it must be text')
    return _whole(value, where)


def _whole(text: str, where: str) -> str:
    """``text`` itself. Raises UsageError where it holds half a character, which no tokenizer takes."""
    if re.search("[\ud800-\udfff]", text):
        raise UsageError(f"{where}: half a character (a lone surrogate), which is not text; was it cut in the middle?")
    return text


def _messages(value: Any, where: str) -> tuple[Mapping[str, Any], ...]:
    whole = isinstance(value, list) and all(
        isinstance(each, dict) and isinstance(each.get("role"), str) and isinstance(each.get("content"), str)
        for each in value
    )
    if not whole:
        raise UsageError(f'{where}: "messages" must be a list of objects with role and content, both text')
    for each in value:
        _whole(each["role"] + each["content"], where)
    return tuple(value)
