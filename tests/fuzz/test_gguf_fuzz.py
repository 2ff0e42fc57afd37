"""However a GGUF file is spoilt: an error of ours in one line, or a folder whose model passes parity."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from fuzzing import obeys, spoil_bytes, whole_model
from tiny_gguf import write_gguf

from skipstone.hf.convert import gguf_to_folder
from skipstone.hf.gguf_header import read_gguf_header

HOSTILE = [0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63, 2**64 - 1]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("gguf") / "sound.gguf"
    write_gguf(file)
    return file.read_bytes()


@pytest.fixture
def file(sound: bytes, tmp_path: Path) -> Path:
    (tmp_path / "model.gguf").write_bytes(sound)
    return tmp_path / "model.gguf"


def convert(file: Path) -> None:
    out = file.parent / "out"
    out.mkdir()
    gguf_to_folder(file, out)
    whole_model(out)


def begin_of_data(file: Path) -> int:
    return min(tensor.start for tensor in read_gguf_header(file).tensors.values())


def test_the_sound_file_works(file: Path) -> None:
    assert obeys(lambda: convert(file)) == "works"


@pytest.mark.parametrize("seed", range(80))
def test_bytes_of_the_header(file: Path, seed: int) -> None:
    spoil_bytes(file, random.Random(seed), within=(0, begin_of_data(file)))
    obeys(lambda: convert(file))


@pytest.mark.parametrize("seed", range(12))
def test_bytes_of_the_weights(file: Path, seed: int) -> None:
    spoil_bytes(file, random.Random(seed), within=(begin_of_data(file), file.stat().st_size))
    obeys(lambda: convert(file))


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("at", [4, 8, 16], ids=["version", "tensors", "entries"])
def test_counts_that_are_wrong(file: Path, at: int, value: int) -> None:
    content = bytearray(file.read_bytes())
    struct.pack_into("<Q" if at > 4 else "<I", content, at, value if at > 4 else value % 2**32)
    file.write_bytes(content)
    assert obeys(lambda: convert(file)) == "CheckpointError"


NUMBERS = ["block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count"]
NUMBERS += ["attention.head_count_kv", "vocab_size", "attention.layer_norm_rms_epsilon", "rope.freq_base"]


@pytest.mark.parametrize("value", [0, 3, 2**20, 2**32 - 1])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_no_model_has(file: Path, name: str, value: int) -> None:
    content = bytearray(file.read_bytes())
    key = f"llama.{name}".encode()
    at = content.index(struct.pack("<Q", len(key)) + key) + 8 + len(key) + 4
    struct.pack_into("<I", content, at, value)
    file.write_bytes(content)
    obeys(lambda: convert(file))


@pytest.mark.parametrize("name", ["tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"])
@pytest.mark.parametrize("value", HOSTILE)
def test_arrays_that_claim_another_length(file: Path, name: str, value: int) -> None:
    content = bytearray(file.read_bytes())
    key = name.encode()
    struct.pack_into("<Q", content, content.index(struct.pack("<Q", len(key)) + key) + 8 + len(key) + 8, value)
    file.write_bytes(content)
    assert obeys(lambda: convert(file)) == "CheckpointError"


@pytest.mark.parametrize("length", [0, 1, 3, 4, 8, 20, 24, 100, 10_000])
def test_files_that_end_early(file: Path, length: int) -> None:
    file.write_bytes(file.read_bytes()[:length])
    assert obeys(lambda: convert(file)) == "CheckpointError"
