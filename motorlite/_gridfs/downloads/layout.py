"""Pure: how a stored file is divided into chunks, and whether a chunk fits (GridFS specification, "File Download")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson.decimal128 import Decimal128

from motorlite._gridfs.errors import CorruptGridFile

if TYPE_CHECKING:
    from collections.abc import Mapping

# That of a 64-bit integer. A Decimal128 can be a number of thousands of digits.
_LARGEST: Final = 2**63 - 1


class Layout:
    """The sizes of one stored file.

    Attributes:
        length: Bytes of the file.
        chunk_size: Bytes of each chunk but the last.
        count: The number of chunks.
    """

    __slots__ = ("chunk_size", "count", "length")

    def __init__(self, length: int, chunk_size: int) -> None:
        self.length = length
        self.chunk_size = chunk_size
        self.count = -(-length // chunk_size)

    def size_of(self, number: int) -> int:
        """The bytes of a chunk, counted from 0."""
        return self.chunk_size if number < self.count - 1 else self.length - self.chunk_size * (self.count - 1)

    def data_of(self, chunk: Mapping[str, Any], number: int) -> bytes:
        """The data of a chunk that should have this number.

        Raises:
            CorruptGridFile: It is another chunk, or has not the size that follows from the file's.
        """
        data = _data(chunk, number)
        if chunk.get("n") != number:
            raise CorruptGridFile(f"chunk {number} of {self.count} is missing; the next one is {chunk.get('n')!r}")
        if len(data) != self.size_of(number):
            raise CorruptGridFile(
                f"chunk {number} of {self.count} has {len(data)} bytes instead of {self.size_of(number)}"
            )
        return data

    def check_surplus(self, chunk: Mapping[str, Any]) -> None:
        """Check a chunk after the last one: an empty one, which some drivers wrote, does no harm.

        Raises:
            CorruptGridFile: It has data.
        """
        if _data(chunk, self.count):
            raise CorruptGridFile(f"after its {self.count} chunks the file has another: number {chunk.get('n')!r}")


def _data(chunk: Mapping[str, Any], number: int) -> bytes:
    data = chunk.get("data")
    if not isinstance(data, bytes):
        raise CorruptGridFile(f"the data of chunk {number} is not binary but of type {type(data).__name__}")
    return data if type(data) is bytes else bytes(data)


def layout_of(file: Mapping[str, Any]) -> Layout:
    """The layout of the file that a document of the files collection describes.

    Any numeric type will do for both fields ("Files collection document"). An empty file needs no chunk size.

    Raises:
        CorruptGridFile: The document makes no sense.
    """
    length = _whole_number(file.get("length"), "length")
    if length == 0:
        return Layout(0, 1)
    chunk_size = _whole_number(file.get("chunkSize"), "chunkSize")
    if chunk_size == 0:
        raise CorruptGridFile("the file's chunkSize is 0")
    return Layout(length, chunk_size)


def _whole_number(value: Any, field: str) -> int:
    number = value.to_decimal() if isinstance(value, Decimal128) else value
    try:
        found = int(number)
    except (TypeError, ValueError, OverflowError):  # a string of digits is caught below
        found = -1
    if not 0 <= found <= _LARGEST or isinstance(value, str | bytes | bool) or found != number:
        raise CorruptGridFile(f"the file's {field} is {value!r}, not a number of bytes")
    return found
