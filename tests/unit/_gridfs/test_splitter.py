"""How written bytes become chunks."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from bson.objectid import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from motorlite._gridfs.upload import Splitter


def splitter(chunk_size: int = 4) -> Splitter:
    numbers = count()
    return Splitter("file", chunk_size, lambda: ObjectId(next(numbers).to_bytes(12, "big")))


def written(made: Splitter, *pieces: Any) -> list[dict[str, Any]]:
    chunks = [chunk for piece in pieces for chunk in made.cut(piece)]
    rest = made.rest()
    return chunks if rest is None else [*chunks, rest]


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_nothing_is_lost(pieces: list[bytes], chunk_size: int) -> None:
    made = splitter(chunk_size)
    chunks = written(made, *pieces)
    whole = b"".join(pieces)
    assert b"".join(chunk["data"] for chunk in chunks) == whole
    assert made.length == len(whole)
    assert [chunk["n"] for chunk in chunks] == list(range(-(-len(whole) // chunk_size)))
    assert all(len(chunk["data"]) == chunk_size for chunk in chunks[:-1])
    assert {chunk["files_id"] for chunk in chunks} <= {"file"}
    parts = list(made.ids(3))
    assert [each for part in parts for each in part] == [chunk["_id"] for chunk in chunks]
    assert all(len(part) == 3 for part in parts[:-1])


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_chunks_are_bytes_of_their_own(kind: Any) -> None:
    data = bytearray(b"abcdefghij")
    chunks = written(splitter(), kind(data))
    data[:] = b"x" * 10
    assert [chunk["data"] for chunk in chunks] == [b"abcd", b"efgh", b"ij"]
    assert {type(chunk["data"]) for chunk in chunks} == {bytes}


def test_a_whole_chunk_is_not_copied() -> None:
    data = b"abcd"
    (chunk,) = splitter().cut(data)
    assert chunk["data"] is data
