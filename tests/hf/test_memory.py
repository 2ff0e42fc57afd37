"""Large pages are asked for only where memory is used anyway, changed pages of libraries stay, and nothing breaks where
a system has no such means.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_folder import tiny_folder

from skipstone.hf import load, memory

LARGE = 2 << 20


# what other tests leave behind in memory must not be counted
IN_A_PROCESS_OF_ITS_OWN = """
import torch
from skipstone.hf import memory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

weights = torch.arange(8 << 20, dtype=torch.float32)  # 32 MB
before = resident()
memory.use_large_pages()
grown = resident() - before
assert torch.equal(weights, torch.arange(8 << 20, dtype=torch.float32))
assert grown < 2 << 20, grown
"""

REUSES_WHAT_WAS_FREED = """
import resource
import torch
from skipstone.hf import memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

assert memory.keep_freed()
for _ in range(40):  # what is cut off for alignment keeps freed blocks apart at first
    torch.ones(16 << 20)  # 64 MB: more than glibc keeps by itself
before = faults()
for _ in range(10):
    torch.ones(16 << 20)
assert faults() - before < 3 * 16384, faults() - before  # pages
"""

LETS_LIBRARIES_GO = """
from pathlib import Path
import torch
from skipstone.hf import memory

def of_files():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssFile"))

x = torch.arange(900.0).view(30, 30).sin()
before, product = of_files(), (x @ x).softmax(-1)
memory.unmap_libraries(Path(torch.__file__).parent / "lib")
assert of_files() < before / 2, (before, of_files())
assert torch.equal((x @ x).softmax(-1), product)
"""

linux = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="not Linux")


@linux
def test_moving_to_large_pages_changes_no_number_and_takes_no_memory() -> None:
    subprocess.run([sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN], check=True)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator than glibc's")
def test_freed_memory_is_used_again_where_it_is_kept() -> None:
    subprocess.run([sys.executable, "-c", REUSES_WHAT_WAS_FREED], check=True)


@linux
def test_what_only_starting_took_of_libraries_leaves_the_process() -> None:
    subprocess.run([sys.executable, "-c", LETS_LIBRARIES_GO], check=True)


@linux
@pytest.mark.parametrize("changed", [b"kept", b""])
def test_a_page_of_a_library_that_was_changed_is_kept(tmp_path: Path, changed: bytes) -> None:
    library = tmp_path / "library.so.1"
    library.write_bytes(b"file" * 1024)
    with library.open("r+b") as file:
        private = mmap.mmap(file.fileno(), 4096, flags=mmap.MAP_PRIVATE)
    private[: len(changed)] = changed
    start = ctypes.addressof(ctypes.c_char.from_buffer(private))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(4096), mmap.PROT_READ) == 0
    assert (start in dict(memory._libraries(tmp_path))) == (not changed)
    memory.unmap_libraries(tmp_path)
    assert private[:8] == (changed + b"filefile")[:4] + b"file"


@pytest.mark.parametrize(("anonymous", "swapped", "taken"), [(0, 0, True), (4, 0, False), (0, 16, False)])
def test_a_changed_page_counts_in_memory_and_swapped_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, anonymous: int, swapped: int, taken: bool
) -> None:
    told = tmp_path / "smaps"
    mapping = f"7f0000000000-7f0000004000 r--p 00001000 fe:00 77    {tmp_path}/libc10.so"
    told.write_text(f"{mapping}\nRss: 0 kB\nAnonymous: {anonymous} kB\nSwap: {swapped} kB\nSwapPss: 0 kB\n")
    monkeypatch.setattr(memory, "_SMAPS", told)
    assert bool(list(memory._libraries(tmp_path))) == taken


@linux
def test_blocks_nobody_wrote_are_left_alone() -> None:
    libc = ctypes.CDLL(None)
    untouched = torch.empty(64 * LARGE, dtype=torch.uint8)
    inside = range(untouched.data_ptr(), untouched.data_ptr() + untouched.numel())
    assert not any(block in inside for block in memory._full_blocks(libc))


def test_no_time_moves_nothing() -> None:
    assert memory.use_large_pages(budget_s=-1.0) == 0


def test_systems_without_the_means_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "_MAPS", tmp_path / "absent")
    monkeypatch.setattr(memory, "_SMAPS", tmp_path / "absent")
    assert memory.use_large_pages() == 0
    memory.unmap_libraries(tmp_path)
    monkeypatch.setattr(memory, "_libc", lambda: None)
    memory.give_back()
    memory.unmap_libraries(tmp_path)
    assert memory.use_large_pages() == 0
    assert not memory.keep_freed()


def test_a_system_that_does_not_let_itself_be_read_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("_MAPS", "_SMAPS"):
        monkeypatch.setattr(memory, name, tmp_path)  # a folder
    assert memory.use_large_pages() == 0
    memory.unmap_libraries(tmp_path)


@linux
def test_paths_of_any_bytes_are_no_error(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.so"))
    odd.write_bytes(bytes(4096))
    with odd.open("rb") as file, mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_READ):
        memory.use_large_pages(budget_s=0.0)
        memory.unmap_libraries(tmp_path)


def test_a_kernel_that_refuses_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MADV_COLLAPSE", 9999)
    assert memory.use_large_pages() == 0


def test_what_loading_took_is_given_back_after_its_last_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done: list[str] = []
    read = load._tokenizer
    monkeypatch.setattr(load, "_tokenizer", lambda *args: (done.append("tokenizer"), read(*args))[1])
    monkeypatch.setattr(memory, "give_back", lambda: done.append("given back"))
    monkeypatch.setattr(memory, "unmap_libraries", lambda folder: done.append("unmapped"))
    load.load_folder(tiny_folder(tmp_path / "tiny"))
    assert done[-3:] == ["tokenizer", "given back", "unmapped"]
