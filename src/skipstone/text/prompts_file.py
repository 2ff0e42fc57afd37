"""Prompts out of a file or standard input: one a line, as plain text or as JSON objects."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import RequestError, UsageError
from .prompt import Prompt, token_ids, valid_messages, valid_text

_FIELDS = ("prompt", "messages", "turns", "question", "article", "instruction", "text")


def read_prompts(path: str | Path) -> list[Prompt]:
    """The prompts of a file, or of standard input where ``path`` is "-"; a name that ends in .gz is unpacked.

    Text holds one prompt a line; a file of JSON objects gives of each the first of prompt, messages, turns (its first),
    question, article, instruction (with input), text. Blank lines are skipped. Raises UsageError, naming the line.
    """
    name = "standard input" if str(path) == "-" else str(path)
    lines = read_text(path).split("\n")
    json_lines = _is_json(name, lines)
    prompts: list[Prompt] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                prompts.append(_from_json(line) if json_lines else valid_text(line.removesuffix("\r")))
            except RequestError as error:
                raise UsageError(f"{name}, line {number}: {error}") from error
    if not prompts:
        raise UsageError(f"{name} holds no prompt: write one a line")
    return prompts


def read_text(path: str | Path) -> str:
    """The text of a file or of standard input ("-"). Raises UsageError where it cannot be read or is not UTF-8."""
    name = "standard input" if str(path) == "-" else str(path)
    try:
        content = _read_stdin() if str(path) == "-" else _read_bytes(Path(path).expanduser())
    except (OSError, EOFError, zlib.error, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{name} cannot be read: {reason}") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        wrong = f"byte 0x{content[error.start]:02x} at offset {error.start}"
        raise UsageError(f"{name}, line {line} is not UTF-8 text ({wrong}): save it as UTF-8") from error


def _read_bytes(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def _is_json(name: str, lines: list[str]) -> bool:
    """By the name where it tells, else by the first line."""
    plain = name.removesuffix(".gz")
    if plain.endswith((".jsonl", ".ndjson", ".json")):
        return True
    first = next((line.strip() for line in lines if line.strip()), "")
    return not plain.endswith(".txt") and first.startswith("{") and first.endswith("}")


def _from_json(line: str) -> Prompt:
    """The prompt of one JSON object. Raises RequestError that says what is wrong with it."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"not JSON ({error}): write one object a line") from error
    if not isinstance(entry, dict):
        raise RequestError(f"not a JSON object but {_kind(entry)}: write one object a line")
    field = next((name for name in _FIELDS if name in entry), None)
    if field is None:
        given = ", ".join(entry) or "nothing"
        raise RequestError(f"no prompt among its fields ({given}): name it one of {', '.join(_FIELDS)}")
    return _prompt(field, entry)


def _prompt(field: str, entry: Mapping[str, Any]) -> Prompt:
    value = entry[field]
    if field == "turns" and isinstance(value, list) and value:
        value = value[0]
    if field == "instruction" and isinstance(value, str) and isinstance(entry.get("input"), str) and entry["input"]:
        value = f"{value}\n\n{entry['input']}"
    if isinstance(value, list) and value and field in ("prompt", "messages"):
        return token_ids(value) or valid_messages(value)
    if not isinstance(value, str) or not value or field == "messages":
        want = "a list of messages" if field == "messages" else "text"
        raise RequestError(f'"{field}" is {_kind(value)}: it must be {want}')
    return valid_text(value)


def _kind(value: object) -> str:
    if isinstance(value, dict | list | str) and not value:
        return "empty"
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise UsageError("standard input is closed: give a prompt as an argument or in a file")
    return sys.stdin.buffer.read()
