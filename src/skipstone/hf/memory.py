"""What a process holds: freed copies given back, or kept for the next, and large pages, which are read faster.

A decode step reads every weight once, in order; the processor fetches ahead only up to the end of a page. With pages of
2 MB instead of 4 KB a step of a small model takes 6 to 20 % less (docs/lab-log.md). Linux only; nothing is lost where
it does not work.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

_MAPS = Path("/proc/self/maps")
_SMAPS = Path("/proc/self/smaps")
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+\s*(.*)$")
_ANONYMOUS = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p 00000000 00:00 0\s*(?:\[heap\])?$")
_PAGE = 4096
_LARGE = 2 << 20
_MADV_DONTNEED = 4
_MADV_COLLAPSE = 25  # since Linux 6.1; older kernels refuse it
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of malloc.h
_MOST = 2**31 - 1  # bytes, the most that an int of mallopt holds


def give_back() -> None:
    """Return to the system what was freed."""
    trim = getattr(_libc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def keep_freed() -> bool:
    """Keep what is freed for what is allocated next, in the whole process; returns whether the system can.

    glibc gives a large tensor pages of its own and gives them back with it, so that training, which makes the same
    tensors at each step, has all of them filled with zeros by the kernel each time.
    """
    mallopt = getattr(_libc(), "mallopt", None)
    return mallopt is not None and all(mallopt(*option) for option in ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _MOST)))


def use_large_pages(budget_s: float = 2.0) -> int:
    """Move what is in memory anyway into large pages, for at most about ``budget_s`` seconds; returns bytes moved.

    Blocks with a hole are left alone, so that no memory is taken that was not in use.
    """
    libc = _libc()
    if libc is None:
        return 0
    deadline, moved = monotonic() + budget_s, 0
    for block in _full_blocks(libc):
        if monotonic() > deadline:
            break
        if libc.madvise(ctypes.c_void_p(block), ctypes.c_size_t(_LARGE), _MADV_COLLAPSE) == 0:
            moved += _LARGE
    return moved


def unmap_libraries(folder: Path) -> None:
    """Take the pages of the libraries in ``folder`` out of the process; none of them may ever be closed.

    Those in use come back from the system's file cache, in some milliseconds; what only starting and loading ran does
    not (docs/lab-log.md).
    """
    libc = _libc()
    if libc is None:
        return
    for start, end in list(_libraries(folder.resolve())):
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)


def _libraries(folder: Path) -> Iterator[tuple[int, int]]:
    """Mappings of files in ``folder`` that cannot be written to, and of which no page is another than in the file:
    relocated, say, or a debugger's. Only such a page would be lost.
    """
    library: tuple[int, int] | None = None
    unchanged = False
    for line in _lines(_SMAPS):
        if mapping := _MAPPING.match(line):
            start, end, may, path = mapping.groups()
            fixed = may in ("r-xp", "r--p") and Path(path).parent == folder
            library = (int(start, 16), int(end, 16)) if fixed else None
            unchanged = False
        elif line.startswith("Anonymous:"):
            unchanged = line.split()[1] == "0"
        elif library and unchanged and line.split() == ["Swap:", "0", "kB"]:  # changed pages may be there too
            yield library


def _full_blocks(libc: ctypes.CDLL) -> Iterator[int]:
    """Addresses of aligned 2 MB blocks of which every page is in memory."""
    pages = _LARGE // _PAGE
    present = (ctypes.c_ubyte * pages)()
    for start, end in _regions():
        for block in range(-(-start // _LARGE) * _LARGE, end - _LARGE + 1, _LARGE):
            known = libc.mincore(ctypes.c_void_p(block), ctypes.c_size_t(_LARGE), present) == 0
            if known and all(page & 1 for page in present):
                yield block


def _regions() -> list[tuple[int, int]]:
    """Private memory that belongs to no file, where it could hold a large page."""
    found = (_ANONYMOUS.match(line) for line in _lines(_MAPS))
    spans = [(int(match[1], 16), int(match[2], 16)) for match in found if match]
    return [(start, end) for start, end in spans if end - start >= 2 * _LARGE]


def _lines(told: Path) -> list[str]:
    """What the system tells of this process; nothing where it does not."""
    try:
        return told.read_text(errors="replace").splitlines()  # paths may be any bytes
    except OSError:
        return []


def _libc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):  # Windows names its own
        return None
