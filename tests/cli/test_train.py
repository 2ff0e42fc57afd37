"""skipstone train: a folder comes out, or a line that says why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import Run, assert_says

import skipstone
from skipstone.cli.training import Training
from skipstone.errors import UsageError
from skipstone.train.result import Base

SMALL = ["--steps", 3, "--length", 32, "--accumulation", 1, "--device", "cpu", "--log-every", 1]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data.jsonl").write_text("\n".join(json.dumps({"text": "the cat and the hat " * 4}) for _ in range(9)))
    return tmp_path / "data.jsonl"


def test_three_steps_write_a_folder_that_decodes(
    run: Run, folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skipstone.cli.training.USEFUL", 1.1)
    out = tmp_path / "trained"
    result = run("train", folder, "--data", data, "--output", out, "--exits", "2,3", *SMALL)
    assert result.code == 0, result.err
    assert_says(result.out, r"last layer: loss \d")
    assert_says(result.err, r"9 samples in \d+ rows")
    assert_says(result.err, r"exit 2 chooses as the last layer does for \d+% of the tokens, which drafts too seldom")
    assert_says(result.err, r"step 3/3: loss \d.*about 0:00:\d\d left")
    assert [json.loads(line)["step"] for line in (out / "training_log.jsonl").read_text().splitlines()] == [1, 2, 3]
    assert set(json.loads((out / "training_log.jsonl").read_text().splitlines()[0])["exit_losses"]) == {"2", "3", "4"}
    assert not (tmp_path / "trained.run").exists()
    assert "config.json records trained exits: layers 2, 3" in skipstone.load(out).notes
    assert run("train", folder, "--data", data, "--output", out).code == 2


def test_a_recipe_in_a_file_may_be_overridden(run: Run, folder: Path, data: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"model": str(folder), "data": str(data), "output": str(tmp_path / "out"), "p_max": 0.3}
    (tmp_path / "recipe.json").write_text(json.dumps(settings))
    result = run("train", "--config", tmp_path / "recipe.json", "--p-max", 0, *SMALL, "--json")
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["recipe"]["p_max"] == 0
    assert report["trained_exits"] == [2, 3]
    assert report == json.loads((tmp_path / "out" / "training.json").read_text())


@pytest.mark.parametrize(
    ("output", "said"), [("~nobody-has-this/y", "write the path without ~"), ("y" * 300, "choose another --output")]
)
def test_an_output_that_no_disk_can_have_is_told(run: Run, output: str, said: str) -> None:
    result = run("train", "tiny", "--data", "x", "--output", output)
    assert result.code == 1
    assert_says(result.error, said)


def test_a_recipe_as_windows_saves_it_is_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_bytes(b'\xef\xbb\xbf{"steps": 0}')
    assert_says(run("train", "--config", tmp_path / "recipe.json").error, "lacks model")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"weight_decay": 10**400}, "weight_decay is a number of 401 digits"),
        ({"data": ["a\0b"]}, "a character that no"),
    ],
)
def test_what_no_number_and_no_name_can_be_is_told(run: Run, tmp_path: Path, given: dict[str, Any], said: str) -> None:
    names = {"model": "m", "data": ["d"], "output": str(tmp_path / "o")}
    (tmp_path / "recipe.json").write_text(json.dumps({**names, **given}))
    assert_says(run("train", "--config", tmp_path / "recipe.json").error, said)


def test_toml_is_read_where_python_can(run: Run, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text('model = "nothing"\ndata = ["a"]\noutput = "b"\nseed = true\n')
    assert_says(run("train", "--config", tmp_path / "recipe.toml").error, "seed is True|Python 3.11")
    (tmp_path / "recipe.toml").write_text("model = ")
    assert_says(run("train", "--config", tmp_path / "recipe.toml").error, "recipe.toml.*(cannot be read|Python 3.11)")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "lacks model"),
        (["tiny"], "lacks data"),
        (["tiny", "--data", "x"], "lacks output"),
        (["tiny", "--data", "x", "--output", "y", "--exits", "2;3"], "no list of layers: write 4,8"),
        (["tiny", "--data", "x", "--output", "y", "--p-max", "1"], "p_max 1.0 is no dropout probability"),
        (
            ["tiny", "--data", "x", "--output", "y", "--steps", "99999999999999999999"],
            "steps 9{20}: give 1000000000 or less",
        ),
        (["--config", "nowhere.toml"], "nowhere.toml cannot be read: No such file"),
    ],
)
def test_what_cannot_work_is_told_in_a_line(run: Run, argv: list[str], said: str) -> None:
    result = run("train", *argv)
    assert_says(result.error, said)
    assert result.code == 2


def test_a_stopped_run_is_gone_on_with(run: Run, folder: Path, data: Path, tmp_path: Path) -> None:
    place = tmp_path / "out.run"
    argv = ["train", folder, "--data", data, "--output", tmp_path / "out", *SMALL]
    bad = run(*argv, "--learning-rate", "1e30", "--save-every", 1)
    assert bad.code == 1
    assert_says(bad.err.splitlines()[-1], "^error: .*not finite|^error: the loss")
    assert_says(bad.err.splitlines()[-1], "stopped at step")
    assert_says(run(*argv).err.splitlines()[-1], "go on with .*--resume")
    assert_says(run(*argv, "--resume").err.splitlines()[-1], "learning_rate is 3e-05 and was 1e.30")
    assert place.is_dir()
    assert not (tmp_path / "out").exists()


def test_a_full_disk_leaves_no_folder(
    run: Run, folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno
    import os

    from skipstone.train.result import Trained

    def full(self: Trained, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Trained, "save", full)
    result = run("train", folder, "--data", data, "--output", tmp_path / "out", *SMALL)
    assert result.code == 1
    assert_says(result.err.splitlines()[-1], "error: .*out: no space left on the disk; free some .*--output")
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "out.run" / "checkpoint-3" / "complete").exists()


@pytest.mark.parametrize(
    ("model", "base"),
    [
        ("smollm2-135m", Base("HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2-135m")),
        ("org/name", Base("org/name")),
        (".", None),
    ],
)
def test_an_adapters_base_is_named_as_other_programs_know_it(model: str, base: Base | None) -> None:
    flags = {"model": model, "data": "x", "output": "y"}
    assert Training.of(None, flags, resume=False)._base() == base


def test_an_output_that_is_a_link_to_nowhere_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    flags = {"model": "m", "data": "x", "output": str(tmp_path / "out")}
    with pytest.raises(UsageError, match="out exists: choose another --output"):
        Training.of(None, flags, resume=False).run(None, True)
