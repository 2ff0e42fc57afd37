"""Small pictures as PNG files, by the standard library alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

Colour = tuple[int, int, int]


def png(rows: Sequence[Sequence[Colour]]) -> bytes:
    """The file of a picture given as rows of equal length, of red, green and blue from 0 to 255."""
    lines = b"".join(b"\0" + bytes(part for colour in row for part in colour) for row in rows)  # \0: no filter
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)  # 8 bits, red, green, blue
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(lines)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
