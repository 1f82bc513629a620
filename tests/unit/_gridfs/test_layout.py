"""How a file is divided into chunks, and which chunks and documents are refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from hypothesis import given
from hypothesis import strategies as st

from motorlite._gridfs.files import Layout, layout_of
from motorlite.gridfs import CorruptGridFile


@pytest.mark.parametrize(
    ("length", "chunk_size", "sizes"),
    [(1, 4, [1]), (4, 4, [4]), (5, 4, [4, 1]), (8, 4, [4, 4]), (9, 4, [4, 4, 1]), (3, 1, [1, 1, 1]), (0, 4, [])],
)
def test_sizes(length: int, chunk_size: int, sizes: list[int]) -> None:
    layout = Layout(length, chunk_size)
    assert [layout.size_of(number) for number in range(layout.count)] == sizes


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_the_sizes_add_up(length: int, chunk_size: int) -> None:
    layout = Layout(length, chunk_size)
    if layout.count:
        last = layout.size_of(layout.count - 1)
        assert 0 < last <= chunk_size
        assert (layout.count - 1) * chunk_size + last == length
    else:
        assert length == 0


@pytest.mark.parametrize("n", [1, 1.0, Int64(1)])
def test_a_chunk_that_fits(n: Any) -> None:
    data = Layout(9, 4).data_of({"n": n, "data": b"abcd"}, 1)
    assert data == b"abcd"


def test_data_of_another_binary_subtype_becomes_bytes() -> None:
    assert type(Layout(4, 4).data_of({"n": 0, "data": Binary(b"abcd", 2)}, 0)) is bytes


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        ({"n": 2, "data": b"abcd"}, "chunk 1 of 3 is missing; the next one is 2"),
        ({"n": 0, "data": b"abcd"}, "chunk 1 of 3 is missing; the next one is 0"),
        ({"n": 1.5, "data": b"abcd"}, "chunk 1 of 3 is missing; the next one is 1.5"),
        ({"n": "1", "data": b"abcd"}, "chunk 1 of 3 is missing; the next one is '1'"),
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


def test_a_surplus_chunk() -> None:
    layout = Layout(9, 4)
    layout.check_surplus({"n": 3, "data": b""})
    with pytest.raises(CorruptGridFile, match="after its 3 chunks the file has another: number 3"):
        layout.check_surplus({"n": 3, "data": b"x"})


@pytest.mark.parametrize(
    "length", [9, 9.0, Int64(9), Decimal128(Decimal(9)), Decimal128(Decimal("9.0"))], ids=lambda value: repr(value)
)
@pytest.mark.parametrize("chunk_size", [4, 4.0, Int64(4), Decimal128(Decimal(4))], ids=lambda value: repr(value))
def test_any_numeric_type(length: Any, chunk_size: Any) -> None:
    layout = layout_of({"length": length, "chunkSize": chunk_size})
    assert (layout.length, layout.chunk_size, layout.count) == (9, 4, 3)


@pytest.mark.parametrize("file", [{"length": 0}, {"length": 0, "chunkSize": 0}, {"length": 0, "chunkSize": "x"}])
def test_an_empty_file_needs_no_chunk_size(file: dict[str, Any]) -> None:
    assert layout_of(file).count == 0


@pytest.mark.parametrize(
    "value",
    [
        -1,
        1.5,
        float("nan"),
        float("inf"),
        "9",
        b"9",
        None,
        True,
        [9],
        Decimal128("NaN"),
        Decimal128("Infinity"),
        Decimal128("1E+6000"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("field", ["length", "chunkSize"])
def test_a_document_that_makes_no_sense(field: str, value: Any) -> None:
    with pytest.raises(CorruptGridFile, match=f"the file's {field} is "):
        layout_of({"length": 9, "chunkSize": 4, field: value})


def test_chunks_without_bytes() -> None:
    with pytest.raises(CorruptGridFile, match="chunkSize is 0"):
        layout_of({"length": 9, "chunkSize": 0})


def test_a_file_without_a_length() -> None:
    with pytest.raises(CorruptGridFile, match="the file's length is None, not a number of bytes"):
        layout_of({"chunkSize": 4})
