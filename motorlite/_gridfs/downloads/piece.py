"""Pure: the part of a downloaded chunk that was not read yet."""

from __future__ import annotations


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
