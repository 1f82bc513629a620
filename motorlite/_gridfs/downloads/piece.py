"""Pure: the unread part of a downloaded chunk, and the lines of a file."""

from __future__ import annotations

import io
from typing import Final

SLICE: Final = 64 * 1024
"""The bytes that are divided into lines at once."""


class Piece:
    """Bytes and a position in them. `move` may go back as well, as far as the chunk goes."""

    __slots__ = ("_data", "_start")

    def __init__(self, data: bytes = b"") -> None:
        self._data = data
        self._start = 0

    def __len__(self) -> int:
        return len(self._data) - self._start

    def take(self, size: int) -> bytes:
        """The next `size` bytes, or all that are left."""
        data, start = self._data, self._start
        self._start = end = min(start + size, len(data))
        return data if end - start == len(data) else data[start:end]

    def line_size(self, size: int) -> int:
        """How many of the next `size` bytes belong to this line."""
        end = self._data.find(b"\n", self._start, self._start + size)
        return min(size, len(self)) if end < 0 else end + 1 - self._start

    def move(self, offset: int) -> bool:
        """Move by some bytes. False, and no effect, if that is outside of the chunk."""
        start = self._start + offset
        if not 0 <= start <= len(self._data):
            return False
        self._start = start
        return True


class Lines:
    """Splits bytes that arrive in pieces into lines, until there are enough.

    Args:
        enough: Stop after the line that takes the total above this number of bytes, as Python's files do; 0 or less for
            all lines.
    """

    __slots__ = ("_begun", "_enough", "_lines", "_size", "are_enough")

    def __init__(self, enough: int) -> None:
        self._enough = enough
        # The bytes of all lines.
        self._size = 0
        self._lines: list[bytes] = []
        # The pieces of a line that has no end yet.
        self._begun: list[bytes] = []
        self.are_enough: bool = False

    def add(self, data: bytes) -> int:
        """Take the next bytes, which must not be empty, and return how many of them belong to the lines."""
        if 0 < self._enough < self._size + len(data):
            end = data.find(b"\n", max(0, self._enough - self._size)) + 1
            if end:
                data, self.are_enough = data[:end], True
        self._size += len(data)
        lines = io.BytesIO(data).readlines()
        self._begun.append(lines[0])
        if lines[0].endswith(b"\n"):
            self._lines.append(b"".join(self._begun))
            self._lines += lines[1:]
            self._begun = [] if self._lines[-1].endswith(b"\n") else [self._lines.pop()]
        return len(data)

    def all(self) -> list[bytes]:
        """Return all lines. Only the last one may have no end."""
        return [*self._lines, b"".join(self._begun)] if self._begun else self._lines
