"""skipstone generate --early-exit: fast, and labelled as lossy wherever it says anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import Run, assert_says

import skipstone
from skipstone.cli.conversation import converse

ASKED = ("--max-new-tokens", 12, "--temperature", 1, "--seed", 3)
SAME: dict[str, Any] = {"max_new_tokens": 12, "temperature": 1.0, "seed": 3}
LABEL = "lossy: early exit at layer 1 of 4"


def test_the_text_alone_goes_to_stdout_and_the_label_to_stderr(run: Run, folder: Path) -> None:
    result = run("generate", "the and", "--model", folder, "--early-exit", 1, *ASKED)
    early = skipstone.load(folder, early_exit=1, progress=lambda _: None)
    assert result.out == early.generate("the and", **SAME).text + "\n"
    loaded, figures = result.err.splitlines()[0], result.err.splitlines()[-1]
    assert_says(loaded, f"{LABEL}; texts are not those of the whole model")
    assert_says(result.err, "exit 1 of 4 layers; no trained exits are recorded")
    assert_says(figures, rf"\[12 tokens.* M 1\.00, nothing drafted, ended: length; {LABEL}\]")


def test_without_the_option_nothing_is_said_of_it(run: Run, folder: Path) -> None:
    result = run("generate", "the and", "--model", folder, *ASKED)
    assert "lossy" not in result.err
    assert "early" not in result.err


def test_figures_of_several_texts_have_the_label(run: Run, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("the\nand\n")
    options = ["--prompts", file, "--early-exit", 1, "--num-return-sequences", 2, "--drafter", "ngram:min=1"]
    result = run("generate", "--model", folder, *options, *ASKED)
    assert_says(result.err.splitlines()[-1], f"48 tokens.*; {LABEL}")


def test_every_json_object_says_it(run: Run, folder: Path) -> None:
    options = ["--json", "--num-return-sequences", 2, "--early-exit", 1, *ASKED]
    result = run("generate", "the", "--model", folder, *options)
    assert [json.loads(line)["lossy"] for line in result.out.splitlines()] == ["early exit at layer 1 of 4"] * 2
    assert_says(result.err, LABEL)
    whole = run("generate", "the", "--model", folder, "--json", *ASKED)
    assert json.loads(whole.out)["lossy"] == ""


def test_every_answer_of_a_conversation_has_the_label(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    early = skipstone.load(folder, early_exit=1, progress=lambda _: None)
    said = iter(["the", "and"])
    converse(early, None, SAME, lambda: next(said, None))
    assert capsys.readouterr().err.count(LABEL) == 2


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        ("4", r"early_exit=4 is no early exit: the model has 4 layers, use 1 to 3 \(no trained exits are recorded\)"),
        ("0", "early_exit=0 runs no layer: use 1 or more"),
        ("-1", "early_exit=-1 runs no layer"),
        ("two", "invalid value for '--early-exit': .*valid integer.*'two'"),
        ("1.5", "valid integer.*'1.5'"),
    ],
)
def test_a_layer_that_cannot_be_is_told(run: Run, folder: Path, layer: str, says: str) -> None:
    result = run("generate", "the", "--model", folder, "--early-exit", layer)
    assert_says(result.err.splitlines()[-1], says)
    assert result.code == 2
    assert result.out == ""


@pytest.mark.parametrize("command", ["check", "tune", "demo", "inspect", "train", "bench layerskip", "bench swift"])
def test_commands_about_the_whole_model_refuse_it(run: Run, command: str) -> None:
    result = run(*command.split(), "--early-exit", 3)
    assert_says(result.error, "--early-exit is for skipstone generate alone: it is lossy")
    assert result.code == 2
