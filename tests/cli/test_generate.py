"""skipstone generate: the text and nothing else on standard output, figures on standard error."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import Run, assert_says

import skipstone
from skipstone.text.language_model import LanguageModel

FIGURES = r"\[\d+ tokens, [\d.]+ tokens/s, M [\d.]+, (α [\d.]+|nothing drafted), ended: [^\]]+\]\n"
ASKED = ("--max-new-tokens", 12, "--temperature", 1, "--seed", 3)
SAME: dict[str, Any] = {"max_new_tokens": 12, "temperature": 1.0, "seed": 3}


@pytest.fixture(scope="module")
def model(folder: Path) -> LanguageModel:
    return skipstone.load(folder)


def test_the_text_goes_to_stdout_and_one_line_of_figures_to_stderr(
    run: Run, folder: Path, model: LanguageModel
) -> None:
    result = run("generate", "the and", "--model", folder, *ASKED)
    assert result.out == model.generate("the and", **SAME).text + "\n"
    assert re.fullmatch(FIGURES, result.err)
    assert result.code == 0


@pytest.mark.parametrize("drafter", ["ngram:min=1,depth=3", "skip:plan=uniform", "exit:layer=2"])
def test_every_drafter_gives_the_same_text(run: Run, folder: Path, drafter: str) -> None:
    plain = run("generate", "the and", "--model", folder, *ASKED)
    drafted = run("generate", "the and", "--model", folder, "--drafter", drafter, *ASKED)
    assert drafted.out == plain.out
    assert re.search("α", drafted.err)


@pytest.mark.parametrize("dash", [(), ("-",)])
def test_without_a_prompt_standard_input_is_the_prompt(run: Run, folder: Path, model: LanguageModel, dash: Any) -> None:
    result = run("generate", *dash, "--model", folder, *ASKED, stdin="the é\n".encode())
    assert result.out == model.generate("the é", **SAME).text + "\n"


def test_a_dash_reads_from_a_terminal_too(run: Run, folder: Path) -> None:
    assert run("generate", "-", "--model", folder, *ASKED, stdin=b"the", terminal=True).code == 0


def test_json_is_one_object_with_text_tokens_and_figures(run: Run, folder: Path, model: LanguageModel) -> None:
    result = run("generate", "the", "--model", folder, "--json", "--drafter", "exit:layer=1", "--logprobs", 2, *ASKED)
    entry = json.loads(result.out)
    expected = model.generate("the", **SAME)
    assert (entry["text"], entry["tokens"], entry["seed"]) == (expected.text, expected.tokens, 3)
    assert (entry["model"], entry["drafter"], entry["finish_reason"]) == (str(folder), "exit:layer=1", "length")
    assert set(entry["time"]) >= {"draft_s", "verify_s", "search_s", "other_s"}
    assert all(entry[name] > 0 for name in ("tokens_per_second", "mean_accepted_length"))
    assert 0 <= entry["acceptance_rate"] <= 1
    assert len(entry["logprobs"]) == 12
    assert result.err == ""


def test_json_has_what_drafters_have_to_say_of_the_model(run: Run, folder: Path) -> None:
    result = run("generate", "the", "--model", folder, "--json", "--drafter", "swift:beta=0", *ASKED)
    (told,) = json.loads(result.out)["told"]
    assert told.startswith("swift:beta=0: drafting without ")
    assert json.loads(run("generate", "the", "--model", folder, "--json", *ASKED).out)["told"] == []


def test_a_prompts_file_gives_json_lines_in_its_order(
    run: Run, folder: Path, model: LanguageModel, tmp_path: Path
) -> None:
    file = tmp_path / "prompts.jsonl"
    prompts = ["the", "and the", "a", "the and a"]
    file.write_text("\n".join(json.dumps({"question": prompt}) for prompt in prompts))
    result = run("generate", "--prompts", file, "--model", folder, "--json", "--rows", 3, *ASKED)
    entries = [json.loads(line) for line in result.out.splitlines()]
    assert [entry["text"] for entry in entries] == [g.text for g in model.generate_batch(prompts, **SAME)]
    assert [entry["index"] for entry in entries] == [0, 1, 2, 3]


def test_a_prompts_file_gives_texts_under_headings(
    run: Run, folder: Path, model: LanguageModel, tmp_path: Path
) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("the\n" + "and " * 40 + "\n")
    result = run("generate", "--prompts", file, "--model", folder, *ASKED)
    one, other = (g.text for g in model.generate_batch(["the", "and " * 40], **SAME))
    heading = "and " * 17 + "and…"
    assert result.out == f"== 1/2: the\n{one}\n== 2/2: {heading}\n{other}\n"
    assert "24 tokens" in result.err


def test_samples_come_under_headings_of_their_own(run: Run, folder: Path) -> None:
    result = run("generate", "the", "--model", folder, "--num-return-sequences", 2, *ASKED)
    assert [line for line in result.out.split("\n") if line.startswith("== ")] == ["== 1/2: the", "== 2/2: the"]


def test_a_chat_wraps_the_prompt_and_the_system_message(run: Run, folder: Path, model: LanguageModel) -> None:
    result = run("generate", "the", "--chat", "--system", "a", "--model", folder, *ASKED)
    chat = [{"role": "system", "content": "a"}, {"role": "user", "content": "the"}]
    assert result.out == model.generate(chat, **SAME).text + "\n"


def test_a_text_ends_before_any_of_the_stop_strings(run: Run, folder: Path, model: LanguageModel) -> None:
    whole = model.generate("the", **SAME).text
    first, second = whole[4:6], whole[2:4]
    result = run("generate", "the", "--model", folder, "--stop", first, "--stop", second, *ASKED)
    assert result.out == whole[:2] + "\n"
    assert "ended: stop_string" in result.err


def test_all_sampling_options_arrive(run: Run, folder: Path, model: LanguageModel) -> None:
    given: dict[str, Any] = {
        "top_k": 20,
        "top_p": 0.9,
        "min_p": 0.01,
        "repetition_penalty": 1.3,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.1,
    }
    options = [word for name, value in given.items() for word in ("--" + name.replace("_", "-"), value)]
    result = run("generate", "the", "--model", folder, *ASKED, *options)
    assert result.out == model.generate("the", **SAME, **given).text + "\n"


def test_the_model_can_be_loaded_in_another_dtype(run: Run, folder: Path) -> None:
    assert run("generate", "the", "--model", folder, "--dtype", "bfloat16", "--device", "cpu", *ASKED).code == 0


def test_a_budget_beyond_the_context_ends_with_the_context(run: Run, folder: Path) -> None:
    result = run("generate", "the " * 115, "--model", folder, "--max-new-tokens", 10**12)
    assert result.code == 0
    assert "ended: context" in result.err or "ended: eos" in result.err


def test_a_terminal_that_cannot_show_a_character_gets_a_question_mark(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(screen, encoding="ascii"))
    (tmp_path / "prompts.txt").write_text("漢 the", encoding="utf-8")
    assert run("generate", "--prompts", tmp_path / "prompts.txt", "--model", folder, *ASKED).code == 0
    assert screen.getvalue().startswith(b"== 1/1: ? the\n")


def test_a_terminal_is_told_at_once_what_is_loaded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("generate", "hello", "--model", "/nowhere").error.startswith('no model "/nowhere"')
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    told = run("generate", "hello", "--model", "/nowhere").err.splitlines()
    assert [line[:16] for line in told] == ["loading /nowhere", "error: no model "]


def test_what_contradicts_itself_is_told_before_anything_heavy_is_imported(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "skipstone.text.settings", None)  # its import would fail
    assert_says(run("generate", "hello", "--rows", 0).error, "--rows 0 generates nothing")
