"""What a stored file is: its document and fields, its chunks and which are refused, and its lines."""

from __future__ import annotations

import datetime
import io
import re
from decimal import Decimal
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from bson.binary import Binary
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.regex import Regex
from hypothesis import given
from hypothesis import strategies as st

from motorlite._gridfs import files
from motorlite._gridfs.files import (
    CHUNKS_INDEX,
    Content,
    Layout,
    Lines,
    Piece,
    checked_file,
    equal,
    has_index,
    layout_of,
)
from motorlite.gridfs import AsyncGridOut, CorruptGridFile
from tests.support.fake_core import fake_client


@pytest.mark.parametrize("value", [{"$gt": ""}, {"a": 1}, Regex("."), re.compile("."), 1, "a", None, b"x", ["a"]])
def test_what_would_be_a_query_is_compared(value: Any) -> None:
    is_query = isinstance(value, (dict, Regex, re.Pattern))
    assert equal(value) == ({"$eq": value} if is_query else value)


@pytest.mark.parametrize(
    ("key", "is_it"),
    [
        ({"files_id": 1, "n": 1}, True),
        ({"files_id": 1.0, "n": Int64(1)}, True),
        ({}, False),
        ({"n": 1, "files_id": 1}, False),
        ({"files_id": 1}, False),
        ({"files_id": -1, "n": 1}, False),
        ({"files_id": 1, "n": 1, "x": 1}, False),
    ],
)
def test_indexes(key: dict[str, Any], is_it: bool) -> None:
    assert has_index(CHUNKS_INDEX, [{"key": {"_id": 1}}, {"key": key}, {}, {"key": Regex("a")}, {"key": 1}]) is is_it


# --- fields ---


def stored(document: dict[str, Any]) -> AsyncGridOut:
    return AsyncGridOut(fake_client()[0].db.fs, file_document=document)


def test_fields() -> None:
    date = datetime.datetime(2024, 5, 6, tzinfo=datetime.UTC)
    file = stored(
        {
            "_id": 1,
            "filename": "f",
            "length": 9,
            "chunkSize": 4,
            "uploadDate": date,
            "metadata": {"a": 1},
            "contentType": "text/plain",
            "aliases": ["g"],
            "md5": "abc",
            "author": "someone",
        }
    )
    assert (file._id, file.filename, file.name, file.length, file.chunk_size) == (1, "f", "f", 9, 4)
    assert (file.upload_date, file.metadata, file.content_type) == (date, {"a": 1}, "text/plain")
    assert (file.aliases, file.md5, file.author, file.contentType) == (["g"], "abc", "someone", "text/plain")


def test_fields_that_are_not_there() -> None:
    file = stored({})
    assert (file.filename, file.metadata, file.content_type, file.aliases, file.md5) == (None,) * 5
    assert {getattr(file, name) for name in ("_id", "chunk_size", "upload_date")} == {None}
    assert file.length == 0
    assert repr(file) == "<AsyncGridOut None, 0 bytes>"
    with pytest.raises(AttributeError, match="the file has no field 'author'"):
        file.author  # noqa: B018
    assert not hasattr(file, "_author")


def test_private_fields() -> None:
    assert stored({"_class": "a.B"})._class == "a.B"
    # Before the file is open, Python's own questions get no other error.
    assert not hasattr(AsyncGridOut(fake_client()[0].db.fs, 1), "__length_hint__")


def test_a_file_for_reading() -> None:
    file = stored({})
    assert (file.readable(), file.seekable(), file.writable(), file.isatty()) == (True, True, False, False)
    file.flush()
    for step in (partial(file.write, b"x"), partial(file.writelines, []), partial(file.truncate, 5), file.fileno):
        with pytest.raises(io.UnsupportedOperation):
            step()


# --- chunks ---


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_all_chunks_but_the_last_are_full(length: int, chunk_size: int) -> None:
    layout = Layout(length, chunk_size)
    if layout.count:
        last = layout.size_of(layout.count - 1)
        assert 0 < last <= chunk_size
        assert (layout.count - 1) * chunk_size + last == length
        assert {layout.size_of(number) for number in (0, layout.count - 2) if 0 <= number < layout.count - 1} <= {
            chunk_size
        }
    else:
        assert length == 0


@pytest.mark.parametrize("n", [1, 1.0, Int64(1)])
@pytest.mark.parametrize("data", [b"abcd", Binary(b"abcd", 2)], ids=["bytes", "another subtype"])
def test_a_chunk_that_fits(n: Any, data: bytes) -> None:
    found = Layout(9, 4).data_of({"n": n, "data": data}, 1)
    assert (type(found), found) == (bytes, b"abcd")


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        ({"n": 2, "data": b"abcd"}, "chunk 1 of 3 is missing; the next one is 2"),
        ({"n": 0, "data": b"abcd"}, "chunk 1 of 3 is missing; the next one is 0"),
        ({"n": 1.5, "data": b"abcd"}, "chunk 1 of 3 is missing; the next one is 1.5"),
        ({"n": "1", "data": b"abcd"}, "chunk 1 of 3 is missing; the next one is '1'"),
        ({"n": 2**60, "data": b"abcd"}, f"chunk 1 of 3 is missing; the next one is {2**60}"),
        ({"data": b"abcd"}, "chunk 1 of 3 is missing; the next one is None"),
        ({"n": 1, "data": b"abc"}, "chunk 1 of 3 has 3 bytes instead of 4"),
        ({"n": 1, "data": b"abcde"}, "chunk 1 of 3 has 5 bytes instead of 4"),
        ({"n": 1, "data": b""}, "chunk 1 of 3 has 0 bytes instead of 4"),
        ({"n": 1, "data": "abcd"}, "the data of chunk 1 is not binary but of type str"),
        ({"n": 1}, "the data of chunk 1 is not binary but of type NoneType"),
    ],
)
def test_a_chunk_that_does_not_fit(chunk: dict[str, Any], message: str) -> None:
    with pytest.raises(CorruptGridFile) as caught:
        Layout(9, 4).data_of(chunk, 1)
    assert str(caught.value) == message


@pytest.mark.parametrize("length", [9, 9.0, Int64(9), Decimal128("9"), Decimal128("9.0")], ids=repr)
@pytest.mark.parametrize("chunk_size", [4, 4.0, Int64(4), Decimal128(Decimal(4))], ids=repr)
def test_any_numeric_type(length: Any, chunk_size: Any) -> None:
    layout = layout_of({"length": length, "chunkSize": chunk_size})
    assert (layout.length, layout.chunk_size, layout.count) == (9, 4, 3)


@pytest.mark.parametrize("file", [{"length": 0}, {"length": 0, "chunkSize": 0}, {"length": 0, "chunkSize": "x"}])
def test_an_empty_file_needs_no_chunk_size(file: dict[str, Any]) -> None:
    assert layout_of(file).count == 0


NO_SIZES = [-1, 1.5, float("nan"), float("inf"), "9", b"9", None, True, [9]]
NO_DECIMAL_SIZES = [Decimal128("NaN"), Decimal128("Infinity"), Decimal128("1E+6000")]


@pytest.mark.parametrize("value", [*NO_SIZES, *NO_DECIMAL_SIZES], ids=repr)
@pytest.mark.parametrize("field", ["length", "chunkSize"])
def test_a_document_that_makes_no_sense(field: str, value: Any) -> None:
    with pytest.raises(CorruptGridFile, match=rf"^the file's {field} is .*, not a number of bytes"):
        layout_of({"length": 9, "chunkSize": 4, field: value})


# --- lines ---


def test_a_whole_chunk_is_not_copied() -> None:
    data = b"abcdef"
    assert Piece(data).take(6) is data


def test_a_view_is_not_copied_before_it_is_owned() -> None:
    buffer = bytearray(b"ab\nc")
    piece = Piece(memoryview(buffer))
    piece.take(1)
    with pytest.raises(BufferError):
        buffer.clear()
    assert piece.own() == b"ab\nc"
    buffer.clear()
    assert piece.take(piece.line_size(9)) == b"b\n"


@pytest.mark.parametrize("joined", [0, 1000])
@given(pieces=st.lists(st.binary(min_size=1, max_size=40), max_size=12))
def test_content_is_all_of_its_pieces(joined: int, pieces: list[bytes]) -> None:
    with patch.object(files, "_JOINED", joined):
        content = Content(sum(map(len, pieces)))
        for piece in pieces:
            content.add(memoryview(piece))
        found = content.all()
    assert type(found) is bytes
    assert found == b"".join(pieces)


def test_large_content_needs_its_pieces_no_longer() -> None:
    content, piece = Content(20_000_000), bytearray(2_000_000)
    content.add(memoryview(piece))
    piece.clear()  # it raises an error while there is a view
    content.add(bytes(18_000_000))
    assert content.all() == bytes(20_000_000)


def test_memory_for_content_is_bounded_by_what_arrives() -> None:
    content = Content(2**62)
    content.add(b"x" * 1000)
    content.add(b"y")


@given(st.binary(max_size=30).map(lambda data: data.replace(b"x", b"\n")), st.lists(st.integers(1, 9)))
def test_lines_are_those_of_a_file(data: bytes, sizes: list[int]) -> None:
    piece, file = Piece(data), io.BytesIO(data)
    for size in sizes:
        assert piece.take(piece.line_size(size)) == file.readline(size)


PIECES = st.lists(st.sampled_from([b"a", b"\n", b"b\n", b"\n\nc", b"long\r\nlines\n"]), max_size=12)


@given(PIECES)
def test_lines_of_pieces(pieces: list[bytes]) -> None:
    lines = Lines(-1)
    assert [lines.add(piece) for piece in pieces] == list(map(len, pieces))
    assert lines.all() == io.BytesIO(b"".join(pieces)).readlines()
    assert not lines.are_enough


@given(PIECES, st.integers(1, 20))
def test_enough_lines(pieces: list[bytes], enough: int) -> None:
    taken, lines = 0, Lines(enough)
    for piece in pieces:
        taken += lines.add(piece)
        if lines.are_enough:
            break
    expected: list[bytes] = []
    for line in io.BytesIO(b"".join(pieces)):
        expected.append(line)
        if sum(map(len, expected)) > enough:
            break
    assert lines.all() == expected
    assert taken == sum(map(len, expected))


def test_a_document_that_is_a_reference_is_no_file() -> None:
    file = {"_id": 1, "length": 0}
    assert checked_file(file) is file
    with pytest.raises(CorruptGridFile, match=r"^what the collection of files has is a reference: DBRef\('c', 1\)$"):
        checked_file(DBRef("c", 1))


def test_a_chunk_that_is_a_reference_is_no_chunk() -> None:
    chunk: Any = DBRef("c", 1, n=1, data=b"abcd")
    for check in (partial(Layout(9, 4).data_of, chunk, 1), partial(Layout(4, 4).check_surplus, chunk)):
        with pytest.raises(CorruptGridFile, match=r"for chunk 1 is a reference, with \$ref and \$id$"):
            check()
