"""Pure: what a stored file is: its document, its chunks, and the queries for both (GridFS specification)."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.regex import Regex

from motorlite._base.arguments import WrongValue, integer, positive
from motorlite._gridfs.errors import CorruptGridFile
from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable

    from motorlite._base.values import Document


# The queries and documents of GridFS.

DEFAULT_CHUNK_SIZE: Final = 255 * 1024
"""Bytes of a chunk: with its other fields, a chunk stays below a power of two, which servers allocate well."""

FILES_INDEX: Final = {"filename": 1, "uploadDate": 1}
CHUNKS_INDEX: Final = {"files_id": 1, "n": 1}

# The field is a 32-bit integer.
_LARGEST_CHUNK: Final = 2**31 - 1


def equal(value: Any) -> Any:
    """What a query has to say to match a value itself, also where it looks like an operator or a pattern."""
    return {"$eq": value} if isinstance(value, Mapping | Regex | re.Pattern) else value


def among(values: list[Any]) -> Any:
    """What a query has to say to match one of some values themselves. More than one come from a server.

    A server takes a pattern in ``$in`` for one. No stored id is a pattern, so only that of a caller can be one.
    """
    return equal(values[0]) if len(values) == 1 else {"$in": values}


def by_id(value: Any) -> Any:
    """The query for one file; a mapping is a query already."""
    return value if value is None or isinstance(value, Mapping) else {"_id": equal(value)}


def chunk_size(value: Any) -> int:
    """Check the size of chunks."""
    if positive(value) > _LARGEST_CHUNK:
        raise WrongValue(f"an integer of at most {_LARGEST_CHUNK}")
    return int(value)


def revision_order(revision: Any) -> tuple[int, int]:
    """The direction in which to sort by uploadDate, and how many to skip ("File Download by Filename")."""
    return (-1, -revision - 1) if integer(revision) < 0 else (1, int(revision))


def has_index(keys: Mapping[str, Any], indexes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether there is an index with these keys in this order, of whatever numeric type."""
    found = (index.get("key") for index in indexes)
    return any(isinstance(key, Mapping) and list(key.items()) == list(keys.items()) for key in found)


def file_document(fields: Mapping[str, Any], length: int, date: datetime.datetime) -> Document:
    """The document of a file whose chunks are all stored."""
    return {**fields, "length": Int64(length), "uploadDate": date}


def this_upload(file: Mapping[str, Any]) -> Document:
    """The query for the document of one upload, and of no other with the same id."""
    return {"_id": equal(file["_id"]), "uploadDate": file["uploadDate"], "length": file["length"]}


# How a stored file is divided into chunks, and whether a chunk fits (GridFS specification, "File Download").

# That of a 64-bit integer. A Decimal128 can be a number of thousands of digits.
_LARGEST: Final = 2**63 - 1


def checked_file(found: Any) -> Mapping[str, Any]:
    """Return the document of a file.

    Raises:
        CorruptGridFile: It has `$ref` and `$id`, and so is a DBRef.
    """
    if isinstance(found, DBRef):
        raise CorruptGridFile(f"what the collection of files has is a reference: {found!r}")
    file: Mapping[str, Any] = found
    return file


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

    def data_of(self, chunk: Mapping[str, Any], number: int) -> bytes | memoryview:
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


def _data(chunk: Mapping[str, Any], number: int) -> bytes | memoryview:
    if isinstance(chunk, DBRef):  # not shown, because it has the data too
        raise CorruptGridFile(f"what the collection of chunks has for chunk {number} is a reference, with $ref and $id")
    data = chunk.get("data")
    if isinstance(data, memoryview):
        return data
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


# What a stored file is, apart from its data: the fields of its document, and what files of Python have.


class StoredFile:
    """The fields of a stored file, and the methods that make it a file for reading only."""

    __slots__ = ("_file",)

    # The document of the file; None until it is read.
    _file: Mapping[str, Any] | None

    def __repr__(self) -> str:
        file = self._file
        if file is None:
            return f"<{type(self).__name__}, not read yet>"
        return f"<{type(self).__name__} {file.get('filename', file.get('_id'))!r}, {self.length} bytes>"

    @property
    def _document(self) -> Mapping[str, Any]:
        if self._file is None:
            raise InvalidOperation("the file's document has not been read yet: call open() first")
        return self._file

    @property
    def _id(self) -> Any:
        """The id of the file."""
        return self._document.get("_id")

    @property
    def filename(self) -> str | None:
        """The name of the file."""
        return self._document.get("filename")

    @property
    def name(self) -> str | None:
        """The name of the file."""
        return self.filename

    @property
    def length(self) -> int:
        """Bytes of the file."""
        length: int = self._document.get("length", 0)
        return length

    @property
    def chunk_size(self) -> int:
        """Bytes of each chunk but the last."""
        # None, as with PyMongo, if another program left it out.
        size: int = self._document.get("chunkSize")  # type: ignore[assignment]
        return size

    @property
    def upload_date(self) -> datetime.datetime:
        """When the file was stored."""
        date: datetime.datetime = self._document.get("uploadDate")  # type: ignore[assignment]
        return date

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """What the application stored with the file."""
        return self._document.get("metadata")

    @property
    def content_type(self) -> str | None:
        """The MIME type of the file. Deprecated by the specification: put it into the metadata."""
        return self._document.get("contentType")

    @property
    def aliases(self) -> list[str] | None:
        """Other names of the file. Deprecated by the specification: put them into the metadata."""
        return self._document.get("aliases")

    @property
    def md5(self) -> str | None:
        """The MD5 checksum, if an older driver stored one. Deprecated by the specification."""
        return self._document.get("md5")

    def __getattr__(self, name: str) -> Any:
        # Python looks up special names, also before the file is open.
        if name.startswith("_") and (name == "_file" or self._file is None):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        if name in self._document:
            return self._document[name]
        raise AttributeError(f"the file has no field {name!r}")

    # --- a file for reading only ---

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return False."""
        return False

    def isatty(self) -> bool:
        """Return False."""
        return False

    def flush(self) -> None:
        """Do nothing."""

    def write(self, value: Any) -> NoReturn:
        """Raise `io.UnsupportedOperation`.

        Args:
            value: Has no effect.
        """
        raise io.UnsupportedOperation("write")

    def writelines(self, lines: Any) -> NoReturn:
        """Raise `io.UnsupportedOperation`.

        Args:
            lines: Has no effect.
        """
        raise io.UnsupportedOperation("writelines")

    def truncate(self, size: int | None = None) -> NoReturn:
        """Raise `io.UnsupportedOperation`.

        Args:
            size: Has no effect.
        """
        raise io.UnsupportedOperation("truncate")

    def fileno(self) -> NoReturn:
        """Raise `io.UnsupportedOperation`."""
        raise io.UnsupportedOperation("fileno")


# The unread part of a downloaded chunk, and the lines of a file.

SLICE: Final = 64 * 1024
"""The bytes that are divided into lines at once."""


# Bytes. Less content is joined at once.
_JOINED: Final = 8 * 1024 * 1024
# The memory for content is at most this many times what has arrived.
_GROWTH: Final = 16


class Piece:
    """Bytes and a position in them. `move` may go back as well, as far as the chunk goes.

    They may be a view of the reply that they came with, until `own` is called.
    """

    __slots__ = ("_data", "_start")

    def __init__(self, data: bytes | memoryview = b"") -> None:
        self._data = data
        self._start = 0

    def __len__(self) -> int:
        return len(self._data) - self._start

    def own(self) -> bytes:
        """Copy the bytes, unless they are no view, so that the reply can be freed. Return them."""
        self._data = data = bytes(self._data)
        return data

    def take(self, size: int) -> bytes | memoryview:
        """The next `size` bytes, or all that are left."""
        data, start = self._data, self._start
        self._start = end = min(start + size, len(data))
        return data if end - start == len(data) else data[start:end]

    def line_size(self, size: int) -> int:
        """How many of the next `size` bytes belong to this line."""
        end = self.own().find(b"\n", self._start, self._start + size)
        return min(size, len(self)) if end < 0 else end + 1 - self._start

    def move(self, offset: int) -> bool:
        """Move by some bytes. False, and no effect, if that is outside of the chunk."""
        start = self._start + offset
        if not 0 <= start <= len(self._data):
            return False
        self._start = start
        return True


class Content:
    """Joins the pieces of a file's content.

    Beyond some size they are copied as they come, so that the replies that they are in need not be kept. The memory for
    that never is many times what has come.

    Args:
        size: The bytes of all pieces; 0 if that is not known.
    """

    __slots__ = ("_arrived", "_copied", "_pieces", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._arrived = 0
        self._pieces: list[bytes | memoryview] = []
        self._copied: io.BytesIO | None = None

    def add(self, piece: bytes | memoryview) -> None:
        """Add the next piece."""
        if self._copied is not None:
            self._copied.write(piece)
            return
        self._pieces.append(piece)
        self._arrived += len(piece)
        if self._size > _JOINED and _GROWTH * self._arrived >= self._size:
            # It writes into these bytes, and returns them in the end, while nothing else refers to them. Of so many, a
            # system allocates only what is written.
            self._copied = io.BytesIO(bytes(self._size))
            self._copied.writelines(self._pieces)
            self._pieces = []

    def all(self) -> bytes:
        """Return the content."""
        if self._copied is not None:
            return self._copied.getvalue()
        return bytes(self._pieces[0]) if len(self._pieces) == 1 else b"".join(self._pieces)


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
