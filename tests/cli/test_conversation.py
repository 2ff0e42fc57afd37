"""skipstone generate --chat at a terminal: questions and answers in turn."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from commands import process

import skipstone
from skipstone.cli.conversation import converse
from skipstone.errors import RequestError
from skipstone.text.generation import Piece
from skipstone.text.language_model import LanguageModel

ASKED: dict[str, Any] = {"max_new_tokens": 8, "temperature": 1.0, "seed": 3, "eos_token_id": []}


@pytest.fixture(scope="module")
def model(folder: Path) -> LanguageModel:
    return skipstone.load(folder)


def talk(model: LanguageModel, lines: Iterable[str], system: str | None = None) -> None:
    said = iter(lines)
    converse(model, system, ASKED, lambda: next(said, None))


def test_every_answer_sees_the_conversation_before_it(model: LanguageModel, capsys: pytest.CaptureFixture[str]) -> None:
    talk(model, ["the", "  ", "and"], system="a")
    chat = [{"role": "system", "content": "a"}, {"role": "user", "content": "the"}]
    first = model.generate(chat, **ASKED).text
    chat += [{"role": "assistant", "content": first}, {"role": "user", "content": "and"}]
    second = model.generate(chat, **ASKED).text
    assert capsys.readouterr().out == f"{first}\n{second}\n"


def test_ctrl_c_stops_the_answer_and_keeps_what_was_said(
    model: LanguageModel, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[list[Any]] = []

    def stream(messages: list[Any], **settings: Any) -> Iterable[Piece]:
        heard.append(messages)
        yield Piece("so far", [1])
        raise KeyboardInterrupt

    monkeypatch.setattr(model, "stream", stream)
    talk(model, ["one", "two"])
    assert capsys.readouterr().out == "so far\nso far\n"
    assert [m["content"] for m in heard[1]] == ["one", "so far", "two"]


def test_a_question_that_cannot_be_answered_is_told_and_forgotten(
    model: LanguageModel, capsys: pytest.CaptureFixture[str]
) -> None:
    talk(model, ["the " * 300, "half \udce2", "and"])
    out, err = capsys.readouterr()
    assert out == model.generate([{"role": "user", "content": "and"}], **ASKED).text + "\n"
    assert "error: the prompt has" in err
    assert "error: the prompt has a lone surrogate" in err


def test_a_model_without_a_template_refuses_before_the_first_question(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model.tokenizer.tokenizer, "chat_template", None)
    with pytest.raises(RequestError, match="has no chat template"):
        talk(model, ["never asked"])


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX terminal")
def test_at_a_real_terminal_ctrl_d_ends_it_and_ctrl_c_drops_a_line(folder: Path) -> None:
    keyboard, terminal = os.openpty()
    options = ["--model", folder, "--max-new-tokens", 5, "--temperature", 1, "--seed", 1]
    run = process("generate", "--chat", *options, stdin=terminal)
    assert run.stderr is not None
    assert run.stdout is not None
    os.close(terminal)
    assert run.stderr.readline() == b"Ctrl-D ends the conversation, Ctrl-C an answer.\n"
    assert run.stderr.read(2) == b"> "
    run.send_signal(signal.SIGINT)
    assert run.stderr.read(3) == b"\n> "
    os.write(keyboard, b"the\n")
    figures = run.stderr.readline()
    assert figures.startswith(b"[5 tokens")
    assert run.stderr.read(2) == b"> "
    os.write(keyboard, b"\x04")
    out, err = run.communicate(timeout=30)
    os.close(keyboard)
    assert (run.returncode, err) == (0, b"\n")
    assert out.endswith(b"\n")
