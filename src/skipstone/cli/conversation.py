"""A conversation at the terminal: Ctrl-D ends it, Ctrl-C only the answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..errors import RequestError
from .answers import figures, show_text

if TYPE_CHECKING:
    from ..text.generation import Piece
    from ..text.language_model import LanguageModel
    from ..text.prompt import Message


def converse(
    model: LanguageModel, system: str | None, settings: dict[str, Any], ask: Callable[[], str | None] | None = None
) -> None:
    """Ask, answer, remember, until ``ask`` gives None. Raises RequestError where the model cannot chat."""
    messages: list[Message] = [] if system is None else [{"role": "system", "content": system}]
    model.encode([*messages, {"role": "user", "content": "?"}])
    print("Ctrl-D ends the conversation, Ctrl-C an answer.", file=sys.stderr)
    while (said := (ask or ask_at_terminal)()) is not None:
        if said.strip():
            messages = answer(model, [*messages, {"role": "user", "content": said}], settings)


def answer(model: LanguageModel, messages: list[Message], settings: dict[str, Any]) -> list[Message]:
    """The conversation with the answer, as far as it came; without the question where it cannot be answered."""
    heard: list[str] = []

    def listen(piece: Piece) -> Piece:
        heard.append(piece.text)
        return piece

    try:
        done = show_text(map(listen, model.stream(messages, **settings)))
        print(figures(done), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("(interrupted)", file=sys.stderr, flush=True)
    except RequestError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return messages[:-1]
    return [*messages, {"role": "assistant", "content": "".join(heard)}]


def ask_at_terminal() -> str | None:
    """A line of the user's; None at the end."""
    with suppress(ImportError):
        import readline  # noqa: F401  # line editing, where the system has it
    try:
        return _line()
    except EOFError:
        print(file=sys.stderr)
        return None
    except KeyboardInterrupt:  # drops the line
        print(file=sys.stderr)
        return ""


def _line() -> str:
    if sys.stdout.isatty():
        return input("> ")
    print("> ", end="", file=sys.stderr, flush=True)
    return input()
