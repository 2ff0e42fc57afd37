"""Ways to spoil a model, and the law all of them must obey: an error of ours in one line, or a model that works.

Every spoiler is drawn from a seed, so that a case can be looked at again.
"""

from __future__ import annotations

import copy
import json
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from skipstone.errors import SkipstoneError
from skipstone.hf.load import load_folder
from skipstone.hf.tokenizer import HFTokenizer
from skipstone.text.language_model import LanguageModel

ROOM = 2 << 30  # bytes a case may take beside what is taken already
SECONDS = 20  # of CPU time
CHAT = [{"role": "user", "content": "the and"}]


class Hang(BaseException):
    """A case that does not end."""


class Forbidden(BaseException):
    """Something that no model file may make happen."""


def obeys(act: Callable[[], Any], says: Callable[[str], bool] | None = None) -> str:
    """Run a case under guard; what became of it: the error's name, or "works"."""
    try:
        with guarded():
            act()
    except SkipstoneError as error:
        line = str(error)
        assert line, "the error says nothing"
        assert "\n" not in line, f"more than one line: {line}"
        assert len(line) < 1000, f"too long to read: {line}"
        assert says is None or says(line), line
        return type(error).__name__
    return "works"


def whole_model(folder: Path) -> None:
    """Load with everything that implies (parity, tokenizer), then generate a little."""
    model = LanguageModel(load_folder(folder))
    model.generate("the", max_new_tokens=2, do_sample=False)
    if model.tokenizer.has_chat:
        model.encode(CHAT)


def tokenizer_only(folder: Path) -> None:
    tokenizer = HFTokenizer.load(folder)
    tokens = tokenizer.encode("the <|end|> é🙂\0 1")
    tokenizer.decode([*tokens, 10**6, 0])
    tokenizer.encode_chat(CHAT) if tokenizer.has_chat else None


@contextmanager
def guarded() -> Iterator[None]:
    """An end to memory and CPU time; no program started, no connection made."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, _hang)
    _watch.on = True
    _limit_memory(hard)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, before)
        _watch.on = False


def _limit_memory(hard: int) -> None:
    statm = Path("/proc/self/statm")
    if statm.exists():
        pages = int(statm.read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, hard))


def _hang(*_: Any) -> None:
    raise Hang(f"more than {SECONDS} seconds")


class _Watch:
    on = False

    def __call__(self, event: str, args: Any) -> None:
        if self.on and event in ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect"):
            raise Forbidden(f"{event} {args}")


_watch = _Watch()
sys.addaudithook(_watch)


# spoilers: of bytes


def spoil_bytes(file: Path, rng: random.Random, within: tuple[int, int] | None = None) -> None:
    content = bytearray(file.read_bytes())
    low, high = within or (0, len(content))
    at = rng.randrange(low, high)
    end = min(at + rng.randint(1, 64), high)
    kind = rng.randrange(7)
    if kind == 0:
        del content[at:]
    elif kind == 1:
        del content[at:end]
    elif kind == 2:
        content[at:at] = rng.randbytes(end - at)
    elif kind == 3:
        content[at:end] = bytes(end - at)
    elif kind == 4:
        content[at:end] = b"\xff" * (end - at)
    elif kind == 5:
        content[at:end] = rng.randbytes(end - at)
    else:
        for _ in range(rng.randint(1, 8)):
            content[rng.randrange(low, high)] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


# spoilers: of JSON

HOSTILE: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 7, 1.5, -0.5, 1e308, 1e-320, float("nan"), float("inf"), -float("inf")),
    *(2**15, 2**31, 2**31 - 1, 2**32, 2**40, 2**63, 2**64, -(2**63), 10**30, 10**300),
    *(
        "",
        "4",
        "x",
        "../x",
        "/etc/passwd",
        "\0",
        "nan",
        "a" * 10**5,
        "é\ud800",
        "{{ 1 / 0 }}",
        "org/evil--x.y",
        "<|end|>",
    ),
    *([], {}, [None], [0], [-1], [[]], {"": {}}, [1] * 1000, {"a": 1}, [{}], ["x", 1, None], {"x": ["y"]}),
]


def hostile(rng: random.Random) -> Any:
    """A value of HOSTILE, to be spoilt further."""
    return copy.deepcopy(rng.choice(HOSTILE))


def rng_of(file: str, seed: int) -> random.Random:
    return random.Random(f"{file} {seed}")


def cases(count: int) -> Any:
    """A test for each of ``count`` seeds."""
    return pytest.mark.parametrize("seed", range(count))


def spoil_json(file: Path, rng: random.Random) -> None:
    """One to three values, names or places changed."""
    content = json.loads(file.read_text(encoding="utf-8"))
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        content = _spoilt(content, rng)
    write(file, content, rng)


def write(file: Path, content: Any, rng: random.Random) -> None:
    text = json.dumps(content)
    if rng.random() < 0.06:
        deep = "[" * rng.choice([200, 5000, 100_000])
        text = text.replace("null", deep + deep.replace("[", "]"), 1) if "null" in text else deep + text
    if rng.random() < 0.03:
        text = text.replace("1", "9" * 5000, 1)
    file.write_text(text, encoding="utf-8")


def _spoilt(content: Any, rng: random.Random) -> Any:
    places = list(_places(content))
    if not places:
        return hostile(rng)
    owner, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.75:
        owner[key] = hostile(rng)
    elif kind < 0.85:
        del owner[key]
    elif isinstance(owner, dict) and kind < 0.95:
        owner[rng.choice(["", "x", "auto_map", "__class__", "num_hidden_layers"])] = owner.pop(key)
    else:
        other, there = rng.choice(places)
        if key in (owner if isinstance(owner, dict) else range(len(owner))):
            value = json.dumps(owner[key])
            other[there] = json.loads(value)
    return content


def _places(content: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Every value of nested JSON, as its owner and its key there; long lists by a few of theirs."""
    if isinstance(content, dict):
        items: list[Any] = list(content.items())
    elif isinstance(content, list):
        items = list(enumerate(content))
    else:
        return
    for key, value in items[:40]:
        yield content, key
        yield from _places(value, depth + 1)
