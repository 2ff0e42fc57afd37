"""The script beside this repository's checkpoint that grows the rank of an adapter."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

Script = Callable[[list[str]], None]
SCRIPT = Path(__file__).parents[2] / "checkpoints" / "smollm2-135m-layerskip" / "widen.py"
A, B = "late.lora_A.weight", "late.lora_B.weight"


@pytest.fixture(scope="module")
def main() -> Script:
    found: Script = runpy.run_path(str(SCRIPT))["main"]
    return found


def _adapter(folder: Path, **config: Any) -> Path:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": 4, "lora_alpha": 8} | config))
    weights = {A: torch.randn(4, 3), B: torch.randn(5, 4), "late.lora_B.bias": torch.zeros(4)}
    weights |= {"early.lora_A.weight": torch.ones(6, 3), "early.lora_B.weight": torch.ones(5, 6)}
    save_file(weights, folder / "adapter_model.safetensors")
    return folder


def _config(adapter: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((adapter / "adapter_config.json").read_text())
    return found


@pytest.mark.parametrize("patterns", [{}, {"rank_pattern": {"early": 6}, "alpha_pattern": {"early": 12}}])
def test_a_wider_adapter_changes_the_model_as_the_narrow_one_did(
    main: Script, tmp_path: Path, patterns: dict[str, Any]
) -> None:
    narrow, wide = _adapter(tmp_path / "narrow", **patterns), tmp_path / "wide"
    main([str(narrow), str(wide), "6"])
    before, after = (load_file(folder / "adapter_model.safetensors") for folder in (narrow, wide))
    assert _config(wide) == _config(narrow) | {"r": 6, "lora_alpha": 12}
    assert after[A].shape == (6, 3)
    torch.testing.assert_close(after[B] @ after[A], before[B] @ before[A])
    assert all(torch.equal(after[name], before[name]) for name in before.keys() - {A, B})


def test_an_alpha_that_is_no_whole_number_keeps_its_scale_too(main: Script, tmp_path: Path) -> None:
    main([str(_adapter(tmp_path / "narrow", lora_alpha=4.5)), str(tmp_path / "wide"), "8"])
    assert _config(tmp_path / "wide")["lora_alpha"] == 9


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"lora_alpha": 10}, "lora_alpha 10 at rank 4 would be 12.5 at rank 5: not whole"),
        ({"use_rslora": True}, "narrow has use_rslora, whose scale goes by the root of the rank"),
        ({"rank_pattern": {"early": 6}}, "narrow has layers in one of rank_pattern and alpha_pattern"),
        ({"alpha_pattern": {"late": 6}}, "narrow has layers in one of rank_pattern and alpha_pattern"),
        ({"rank_pattern": {"early": 4}, "alpha_pattern": {"early": 6}}, "narrow has rank 4 before its exits too"),
        ({"r": 5}, "rank 5: narrow has 5 already; give more"),
        ({"r": None}, "narrow/adapter_config.json has no r above 0"),
        ({"lora_alpha": "8"}, "narrow/adapter_config.json has no lora_alpha above 0"),
    ],
)
def test_an_adapter_whose_scale_would_change_is_refused_and_makes_no_output(
    main: Script,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    config: dict[str, Any],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    _adapter(Path("narrow"), **config)
    with pytest.raises(SystemExit):
        main(["narrow", "wide", "5"])
    assert f"error: {said}" in capsys.readouterr().err
    assert not Path("wide").exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("adapter_config.json", b"{", "cannot be read"),
        ("adapter_config.json", b"\xff", "cannot be read"),
        ("adapter_config.json", b"[]", "holds no object"),
        ("adapter_model.safetensors", b"short", "cannot be read"),
    ],
)
def test_a_damaged_adapter_is_told_in_a_line(
    main: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, said: str
) -> None:
    narrow = _adapter(tmp_path / "narrow")
    (narrow / name).write_bytes(content)
    with pytest.raises(SystemExit):
        main([str(narrow), str(tmp_path / "wide"), "8"])
    assert f"error: {narrow / name} {said}" in capsys.readouterr().err
    assert not (tmp_path / "wide").exists()


def test_an_output_that_cannot_be_made_is_told_in_a_line(
    main: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    narrow, link = _adapter(tmp_path / "narrow"), tmp_path / "link"
    link.symlink_to("nowhere")
    for output, said in (
        (narrow, "exists: choose another OUTPUT"),
        (link, "exists: choose another OUTPUT"),
        (narrow / "adapter_config.json" / "wide", "cannot be made: Not a directory"),
    ):
        with pytest.raises(SystemExit):
            main([str(narrow), str(output), "8"])
        assert f"error: {output} {said}" in capsys.readouterr().err
