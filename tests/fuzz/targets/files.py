"""What GridFS reads: the documents of files, and their chunks."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import bson
from bson.errors import InvalidBSON

from motorlite._gridfs.files import CHUNKS_INDEX, Layout, by_id, has_index, layout_of
from motorlite._gridfs.grid_out import AsyncGridOut
from motorlite._wire.documents import decode_reply
from motorlite.errors import ProtocolError
from motorlite.gridfs.errors import CorruptGridFile
from tests.fuzz.driving import drive
from tests.fuzz.mutation import documents
from tests.fuzz.target import Form, Limit, Target

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from motorlite._base.values import Document


class _Chunks:
    """The collection of chunks, which a server returns from some chunk on, in whatever state they are."""

    # With command listeners, large chunks come as usual documents, too. tests/unit/_wire/test_slices.py has the others.
    _core = SimpleNamespace(executor=SimpleNamespace(reports=SimpleNamespace(publish_command=id)))

    def __init__(self, found: list[Document]) -> None:
        self._found = found

    def find(self, query: Mapping[str, Any], *, batch_size: int, **_: Any) -> _Cursor:
        assert batch_size > 0
        first = query["n"]["$gte"] if "n" in query else 0
        return _Cursor(self._found[first:])


class _Cursor:
    def __init__(self, found: list[Document]) -> None:
        self._left = iter(found)

    def __aiter__(self) -> AsyncIterator[Document]:
        return self

    async def __anext__(self) -> Document:
        for document in self._left:
            return document
        raise StopAsyncIteration

    async def close(self) -> None:
        pass


class _Store:
    """The part of a bucket that a download uses."""

    def __init__(self, found: list[Document]) -> None:
        self.chunks = _Chunks(found)

    async def turns(self, deadline: object) -> _Store:
        return self

    async def take(self) -> None:
        """Never wait."""


def gridfs(data: bytes) -> None:
    """The document of a file, then those of its chunks; the first byte is the size of reads.

    Raises nothing but CorruptGridFile. What is read is what the chunks have, as much as the file's length says, in
    whatever portions.
    """
    if not data:
        return
    try:
        file, *chunks = [decode_reply(body) for body in documents(data[1:])]
    except (ProtocolError, InvalidBSON, ValueError):  # the last one: there is no document
        return
    has_index(CHUNKS_INDEX, [file])
    try:
        layout = layout_of(file)
        whole = drive(_open(file, chunks).read())
    except CorruptGridFile as error:
        assert str(error)
        return
    assert len(whole) == layout.length
    assert whole == b"".join(chunk["data"] for chunk in chunks[: layout.count])
    _read_in_portions(file, chunks, whole, layout, max(data[0] + 1, len(whole) // 32))


def _open(file: Document, chunks: list[Document]) -> AsyncGridOut:
    store: Any = _Store(chunks)
    opened = AsyncGridOut._make(store, None, file=file)
    assert repr(opened)
    assert by_id(file.get("_id")) is not None or file.get("_id") is None
    return opened


def _read_in_portions(file: Document, chunks: list[Document], whole: bytes, layout: Layout, size: int) -> None:
    opened, found = _open(file, chunks), b""
    while portion := drive(opened.read(size)):
        assert len(portion) <= size
        found += portion
    assert found == whole
    assert drive(_open(file, chunks).readlines()) == io.BytesIO(whole).readlines()
    middle = drive(opened.seek(len(whole) // 2))
    assert drive(opened.readline()) == io.BytesIO(whole[middle:]).readline()
    drive(opened.seek(-min(size, len(whole)), io.SEEK_END))
    assert drive(opened.readchunk()) in [whole[-size:][:end] for end in range(min(size, len(whole)) + 1)]
    assert layout.count == 0 or sum(map(layout.size_of, range(layout.count))) == len(whole)


def _stored(option: int, content: bytes, chunk_size: Any, length: Any = None, **fields: Any) -> bytes:
    file = {"_id": 1, "length": len(content) if length is None else length, "chunkSize": chunk_size, **fields}
    parts = [content[start : start + 4] for start in range(0, len(content), 4)]
    chunks = [{"_id": number, "files_id": 1, "n": number, "data": part} for number, part in enumerate(parts)]
    return bytes([option]) + b"".join(map(bson.encode, [file, *chunks]))


_SEEDS: Final = [
    _stored(0, b"", 4),
    _stored(2, b"ab\ncdefgh\n\nij", 4, filename="x", metadata={"a": 1}),
    _stored(1, b"abcdefgh", bson.Int64(4), 8.0),
    _stored(5, b"abcdefgh", bson.Decimal128("4"), bson.Decimal128("8")),
    _stored(5, b"abcdefgh", 4, bson.Int64(2**62)),
    _stored(5, b"abcde", 2**31 - 1, 5),
    bytes([3]) + bson.encode({"key": CHUNKS_INDEX}),
    # They once raised AttributeError and KeyError.
    bytes([3]) + bson.encode({"key": bson.Regex("a"), "length": 0}),
    bytes([3]) + bson.encode({"length": 1, "chunkSize": 1}),
]

TARGETS: Final = (
    # A file in single bytes takes some lines for each.
    Target(
        "gridfs",
        gridfs,
        _SEEDS,
        ("_gridfs.files", "_gridfs.grid_out"),
        100,
        Form.DOCUMENTS,
        prefix=1,
        steps=Limit(10_000, 600),
        memory=Limit(2**18, 1_000),
    ),
)
