"""The script beside this repository's checkpoint that averages adapters."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

Script = Callable[[list[str]], None]
SCRIPT = Path(__file__).parents[2] / "checkpoints" / "smollm2-135m-layerskip" / "average.py"


@pytest.fixture(scope="module")
def main() -> Script:
    found: Script = runpy.run_path(str(SCRIPT))["main"]
    return found


def _adapter(folder: Path, value: float, size: int = 3, name: str = "a") -> Path:
    folder.mkdir()
    (folder / "adapter_config.json").write_text("{}")
    save_file({name: torch.full((size,), value)}, folder / "adapter_model.safetensors")
    return folder


def test_adapters_are_averaged_by_their_weights_and_repeated_ones_add_up(
    main: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, out = _adapter(tmp_path / "one", 1.0), _adapter(tmp_path / "two", 2.0), tmp_path / "out"
    main([str(out), f"{one}=0.25", f"{two}=0.5", f"{one}=0.25"])
    assert load_file(out / "adapter_model.safetensors")["a"].tolist() == [1.5] * 3
    assert capsys.readouterr().err == ""
    main([str(tmp_path / "more"), f"{one}=1", f"{two}=0.5"])
    assert capsys.readouterr().err == "the weights sum to 1.5, not to 1\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["one=0.5", "wide=0.5"], "a is [4] in wide and [3] in one: give adapters of the same ranks"),
        (["one=0.5", "other=0.5"], "other has no a, which one has: give adapters of one lineage"),
        (["one=0.5", "nowhere=0.5"], "nowhere has no adapter_config.json: give folders of adapters"),
        (["one=half"], "one=half is no ADAPTER=WEIGHT"),
        (["one"], "one is no ADAPTER=WEIGHT"),
        (["one=nan"], "one=nan is no ADAPTER=WEIGHT"),
        (["broken=1"], "adapter_model.safetensors cannot be read"),
        (["no_json=1"], "no_json/adapter_config.json cannot be read"),
        (["no_object=1"], "no_object/adapter_config.json holds no object"),
        (["large=3"], "a grows beyond float16: give smaller weights"),
        (["one=1", "nan=0"], "a is not finite in nan: train that adapter anew"),
    ],
)
def test_what_cannot_be_averaged_is_told_in_a_line_and_makes_no_output(
    main: Script,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    _adapter(Path("one"), 1.0)
    _adapter(Path("wide"), 1.0, size=4)
    _adapter(Path("other"), 1.0, name="b")
    _adapter(Path("large"), 30000.0)
    _adapter(Path("nan"), float("nan"))
    (_adapter(Path("broken"), 1.0) / "adapter_model.safetensors").write_bytes(b"broken")
    (_adapter(Path("no_json"), 1.0) / "adapter_config.json").write_text("{")
    (_adapter(Path("no_object"), 1.0) / "adapter_config.json").write_text("[]")
    with pytest.raises(SystemExit):
        main(["out", *given])
    assert f"error: {said}" in capsys.readouterr().err.replace("broken/", "")
    assert not Path("out").exists()


def test_an_output_that_exists_is_refused(main: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = _adapter(tmp_path / "one", 1.0)
    with pytest.raises(SystemExit):
        main([str(one), f"{one}=1"])
    assert "exists: choose another OUTPUT" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("base_model_name_or_path", "small", "large"),
        ("r", 24, 28),
        ("lora_alpha", 48, 56),
        ("rank_pattern", {"early": 64}, {}),
        ("alpha_pattern", {"early": 128}, {"early": 64}),
        ("use_rslora", False, True),
        ("use_dora", True, False),
        ("skipstone_exits", [8], [9]),
    ],
)
def test_adapters_whose_factors_mean_different_things_are_refused_with_both_values(
    main: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, first: object, second: object
) -> None:
    one, two, out = _adapter(tmp_path / "one", 1.0), _adapter(tmp_path / "two", 2.0), tmp_path / "out"
    for adapter, value in ((one, first), (two, second)):
        (adapter / "adapter_config.json").write_text(json.dumps({name: value}))
    with pytest.raises(SystemExit):
        main([str(out), f"{one}=0.5", f"{two}=0.5"])
    assert f"error: {name} is {second} in {two} and {first} in {one}: give" in capsys.readouterr().err
    assert not out.exists()


def test_exits_that_one_adapter_alone_tells_are_refused(
    main: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = _adapter(tmp_path / "one", 1.0), _adapter(tmp_path / "two", 2.0)
    (two / "adapter_config.json").write_text('{"skipstone_exits": [8]}')
    with pytest.raises(SystemExit):
        main([str(tmp_path / "out"), f"{one}=0.5", f"{two}=0.5"])
    assert f"skipstone_exits is [8] in {two} and absent in {one}" in capsys.readouterr().err


def test_settings_that_change_no_factor_may_differ(main: Script, tmp_path: Path) -> None:
    one, two = _adapter(tmp_path / "one", 1.0), _adapter(tmp_path / "two", 2.0)
    (one / "adapter_config.json").write_text('{"peft_version": "0.17"}')
    main([str(tmp_path / "out"), f"{one}=0.5", f"{two}=0.5"])
    assert (tmp_path / "out" / "adapter_config.json").read_text() == '{"peft_version": "0.17"}'


def test_an_output_below_a_file_is_refused(main: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = _adapter(tmp_path / "one", 1.0)
    with pytest.raises(SystemExit):
        main([str(one / "adapter_config.json" / "out"), f"{one}=1"])
    assert "out cannot be made: Not a directory" in capsys.readouterr().err
