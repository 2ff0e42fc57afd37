"""Ctrl-C, a closed pipe, a full disk, no memory, a bug: each ends in order, with its exit code and without noise."""

from __future__ import annotations

import builtins
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import Run, assert_says, process

from skipstone.cli.loading import after_torch, interruptible
from skipstone.cli.outcome import outcome
from skipstone.engine import Engine
from skipstone.errors import CheckpointError, RequestError, StoreError, UsageError
from skipstone.text.language_model import LanguageModel

posix = pytest.mark.skipif(os.name != "posix", reason="signals and /dev are those of POSIX systems")


def interrupted(*argv: object, after: bytes | float) -> tuple[int, str, str]:
    """Exit code, output and errors of a process that gets Ctrl-C ``after`` so many seconds, or some output."""
    run = process(*argv)
    assert run.stdout is not None
    first = b""
    if isinstance(after, bytes):
        while not first.endswith(after):
            first += run.stdout.read(1)
    else:
        time.sleep(after)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    return run.returncode, (first + out).decode(), err.decode()


@posix
def test_ctrl_c_leaves_the_text_so_far_and_a_newline(folder: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("the\n" * 200)
    options = ["--model", folder, "--max-new-tokens", 250, "--temperature", 1, "--rows", 1, "--seed", 1]
    code, out, err = interrupted("generate", "--prompts", prompts, *options, after=b"== 2/200: the\n")
    assert code == 130
    assert out.startswith("== 1/200: the\n")
    assert out.endswith("\n")
    assert err == "\ninterrupted\n"


@posix
@pytest.mark.parametrize("seconds", [0.5, 1.2])
def test_ctrl_c_while_loading_says_so_and_no_more(folder: Path, seconds: float) -> None:
    long = ["--max-new-tokens", 10**9, "--num-return-sequences", 64, "--temperature", 1]
    code, _, err = interrupted("generate", "the", "--model", folder, *long, after=seconds)
    assert (code, err) == (130, "\ninterrupted\n")


@posix
def test_ctrl_c_does_not_cut_short_the_import_of_torch_which_would_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    def importing(name: str, *rest: Any) -> Any:
        if name == "torch":
            os.kill(os.getpid(), signal.SIGINT)
            ended.append(name)
        return real(name, *rest)

    real = builtins.__import__
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
    monkeypatch.setattr(builtins, "__import__", importing)
    try:
        with pytest.raises(KeyboardInterrupt):
            after_torch(lambda: ended.append("loading"))()
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == ["torch"]


@pytest.mark.parametrize(
    "command", ["generate x", "pull", "check", "tune", "train", "demo", "plans list", "bench swift", "drafters"]
)
def test_commands_import_torch_in_one_piece_before_anything_that_needs_it(command: str) -> None:
    program = (
        "import builtins, signal, sys; real, before = builtins.__import__, signal.default_int_handler\n"
        "signal.signal(signal.SIGINT, before)\n"  # whoever runs the tests may ignore it
        "def watched(name, *rest):\n"
        "    if name == 'torch' and 'torch' not in sys.modules:\n"
        "        print('whole' if signal.getsignal(signal.SIGINT) is not before else 'not', flush=True); sys.exit()\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = watched\n"
        f"from skipstone.cli.main import main; main({command.split()!r})"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stdout == "whole\n"


@posix
def test_who_was_started_to_ignore_ctrl_c_goes_on_to() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_in_json_still_gives_the_texts_it_cuts_short(folder: Path, run: Run, monkeypatch: Any) -> None:
    calls, whole = iter(range(8)), Engine.step

    def once_too_often(self: Engine) -> Any:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return whole(self)

    monkeypatch.setattr(Engine, "step", once_too_often)
    result = run("generate", "the", "--model", folder, "--json", "--max-new-tokens", 100, "--temperature", 1)
    assert result.code == 130
    assert '"finish_reason": "interrupted"' in result.out


@posix
def test_ctrl_c_while_pulling_says_so_and_no_more(tmp_path: Path) -> None:
    pip = tmp_path / "pip.py"
    pip.write_text(
        "import sys, time\n"
        "if '--version' in sys.argv: print('pip 25.3 from somewhere'); sys.exit()\n"
        "print('Downloading tiny', flush=True); time.sleep(60)\n"
    )
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from skipstone.store import wheel\n"
        f"wheel.pip_command = lambda action: [sys.executable, {str(pip)!r}, action]\n"
        "from skipstone.cli.main import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", program, "pull", "--cache", str(tmp_path / "cache")]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert run.stderr is not None
    assert run.stderr.readline() == b"Downloading tiny\n"
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: pip gets it, too
    out, err = run.communicate(timeout=30)
    assert (run.returncode, out, err) == (130, b"", b"\ninterrupted\n")


@posix
def test_a_reader_that_goes_away_ends_the_command_silently(folder: Path) -> None:
    run = process("generate", "the", "--model", folder, "--max-new-tokens", 250, "--temperature", 1, "--seed", 1)
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    err = run.stderr.read()
    run.stderr.close()
    assert (run.wait(timeout=60), err) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full to write to")
def test_a_full_disk_is_one_clear_line() -> None:
    with open("/dev/full", "w") as full:
        run = process("--version", stdout=full)
        _, err = run.communicate(timeout=60)
    assert (run.returncode, err.decode()) == (1, "error: no space left on the disk: free some\n")


def test_running_out_of_memory_is_told_with_a_way_out(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def starve(*given: Any, **more: Any) -> None:
        torch.empty(2**60)

    monkeypatch.setattr(LanguageModel, "stream_batch", starve)
    result = run("generate", "the", "--model", folder)
    assert_says(result.error, "out of memory .*can't allocate memory.*: try fewer --rows, a smaller model or --dtype")
    assert result.code == 1


@pytest.mark.parametrize("samples", [10**9, 10**18])
def test_more_samples_than_memory_holds_is_told_as_such(run: Run, folder: Path, samples: int) -> None:
    result = run("generate", "the", "--model", folder, "--num-return-sequences", samples, "--max-new-tokens", 200)
    assert_says(result.error, "out of memory")


def test_a_bug_is_one_line_that_asks_for_a_report(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*given: Any, **more: Any) -> None:
        raise ZeroDivisionError("by\nnothing")

    monkeypatch.setattr(LanguageModel, "stream_batch", stumble)
    result = run("generate", "the", "--model", folder)
    expected = "unexpected ZeroDivisionError: by nothing (run again with --debug for the traceback; please report it)"
    assert (result.error, result.code) == (expected, 1)


@pytest.mark.parametrize("argv", [["--debug", "generate"], ["generate", "--debug"]])
def test_debug_shows_the_traceback_before_or_after_the_command(run: Run, argv: list[str]) -> None:
    result = run(*argv, "hi", "--rows", 0)
    assert result.err.startswith("Traceback (most recent call last):")
    assert result.err.endswith("\nerror: --rows 0 generates nothing: use 1 or more\n")
    assert result.code == 2


def chained(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UsageError("two\nlines"), 2, "error: two lines"),
        (RequestError("r"), 2, "error: r"),
        (CheckpointError("c"), 1, "error: c"),
        (StoreError("s"), 1, "error: s"),
        (KeyboardInterrupt(), 130, "\ninterrupted"),
        (chained(ImportError("numpy"), KeyboardInterrupt()), 130, "\ninterrupted"),
        (BrokenPipeError(), 141, ""),
        (SystemExit(3), 3, ""),
        (MemoryError(), 1, "error: out of memory (no details): try fewer --rows, a smaller model or --dtype bfloat16"),
        (OSError(errno.ENOSPC, "full", "/x"), 1, "error: no space left on the disk for /x: free some"),
    ],
)
def test_every_ending_has_its_code_and_line(error: BaseException, code: int, line: str) -> None:
    assert outcome(error) == (code, line)
