"""Queries, orders and documents."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest
from bson.int64 import Int64
from bson.regex import Regex

from motorlite._base.arguments import WrongType, WrongValue
from motorlite._gridfs import files


@pytest.mark.parametrize("value", [{"$gt": ""}, {"a": 1}, Regex("."), re.compile(".")])
def test_what_would_be_a_query_is_compared(value: Any) -> None:
    assert files.equal(value) == {"$eq": value}


@pytest.mark.parametrize("value", [1, "a", None, b"x", ["a"]])
def test_other_values_are_themselves(value: Any) -> None:
    assert files.equal(value) == value


def test_a_query_by_id() -> None:
    assert files.by_id({"a": 1}) == {"a": 1}
    assert files.by_id(5) == {"_id": 5}
    assert files.by_id(None) is None


@pytest.mark.parametrize(("revision", "order"), [(0, (1, 0)), (1, (1, 1)), (-1, (-1, 0)), (-3, (-1, 2))])
def test_revisions(revision: int, order: tuple[int, int]) -> None:
    assert files.revision_order(revision) == order


@pytest.mark.parametrize("revision", [True, 1.0, "1", None])
def test_what_is_no_revision(revision: Any) -> None:
    with pytest.raises(WrongType):
        files.revision_order(revision)


@pytest.mark.parametrize("size", [1, 255 * 1024, 2**31 - 1])
def test_chunk_sizes(size: int) -> None:
    assert files.chunk_size(size) == size


@pytest.mark.parametrize("size", [0, -1, 2**31])
def test_wrong_chunk_sizes(size: int) -> None:
    with pytest.raises(WrongValue):
        files.chunk_size(size)


@pytest.mark.parametrize("size", [1.0, True, "4", None])
def test_chunk_sizes_of_a_wrong_type(size: Any) -> None:
    with pytest.raises(WrongType):
        files.chunk_size(size)


@pytest.mark.parametrize("one", [1, 1.0, Int64(1)])
@pytest.mark.parametrize("other", [1, 1.0, Int64(1)])
def test_indexes_of_any_numeric_type(one: Any, other: Any) -> None:
    indexes = [{"key": {"_id": 1}}, {"key": {"files_id": one, "n": other}}]
    assert files.has_index(files.CHUNKS_INDEX, indexes)


@pytest.mark.parametrize(
    "key", [{}, {"n": 1, "files_id": 1}, {"files_id": 1}, {"files_id": -1, "n": 1}, {"files_id": 1, "n": 1, "x": 1}]
)
def test_other_indexes(key: dict[str, Any]) -> None:
    assert not files.has_index(files.CHUNKS_INDEX, [{"key": key}, {}])


def test_the_document_of_a_file() -> None:
    date = datetime.datetime(2024, 5, 6, tzinfo=datetime.UTC)
    made = files.file_document({"_id": {"a": 1}, "filename": "f", "chunkSize": 4}, 9, date)
    assert made == {"_id": {"a": 1}, "filename": "f", "chunkSize": 4, "length": 9, "uploadDate": date}
    assert type(made["length"]) is Int64
    assert files.this_upload(made) == {"_id": {"$eq": {"a": 1}}, "uploadDate": date, "length": 9}
