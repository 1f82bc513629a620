"""Pure: cuts what is written to an upload into chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson.objectid import ObjectId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from motorlite._base.values import Document

# Bytes of an ObjectId.
_ID: Final = 12


class Splitter:
    """The chunks of one upload, made as the data arrives."""

    __slots__ = ("_ids", "_new_id", "_number", "_tail", "chunk_size", "file_id", "length")

    def __init__(self, file_id: Any, chunk_size: int, new_id: Callable[[], ObjectId]) -> None:
        self.file_id: Any = file_id
        self.chunk_size: int = chunk_size
        # Bytes written so far.
        self.length: int = 0
        self._new_id = new_id
        # The number of the next chunk.
        self._number = 0
        # What does not fill a chunk yet.
        self._tail = bytearray()
        # The ids of all chunks, one after the other: as objects they would need five times the memory.
        self._ids = bytearray()

    def cut(self, data: bytes | bytearray | memoryview) -> Iterator[Document]:
        """Take all of `data`, and make the chunks that it completes. Has to be read to its end."""
        self.length += len(data)
        size, tail, start = self.chunk_size, self._tail, 0
        if not tail and type(data) is bytes and len(data) == size:
            yield self._chunk(data)
            return
        with memoryview(data) as view:
            if tail:
                start = min(size - len(tail), len(view))
                tail += view[:start]
                if len(tail) < size:
                    return
                yield self._chunk(bytes(tail))
                tail.clear()
            while start + size <= len(view):
                yield self._chunk(bytes(view[start : start + size]))
                start += size
            tail += view[start:]

    @property
    def count(self) -> int:
        """The number of chunks made so far."""
        return self._number

    def rest(self) -> Document | None:
        """Make the last chunk, if something is left for it."""
        tail, self._tail = self._tail, bytearray()
        return self._chunk(bytes(tail)) if tail else None

    def ids(self, at_once: int) -> Iterator[list[ObjectId]]:
        """The ids of all chunks that were made, in lists of at most `at_once`."""
        for start in range(0, len(self._ids), at_once * _ID):
            part = bytes(self._ids[start : start + at_once * _ID])
            yield [ObjectId(part[at : at + _ID]) for at in range(0, len(part), _ID)]

    def _chunk(self, data: bytes) -> Document:
        identifier = self._new_id()
        self._ids += identifier.binary
        number, self._number = self._number, self._number + 1
        return {"_id": identifier, "files_id": self.file_id, "n": number, "data": data}
