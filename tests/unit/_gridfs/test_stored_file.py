"""The fields of a stored file, and what makes it a file for reading."""

from __future__ import annotations

import copy
import datetime
import io
from functools import partial
from typing import Any

import pytest

from motorlite._gridfs.files import StoredFile
from motorlite.errors import InvalidOperation

DATE = datetime.datetime(2024, 5, 6, tzinfo=datetime.UTC)
DOCUMENT = {
    "_id": 1,
    "filename": "f",
    "length": 9,
    "chunkSize": 4,
    "uploadDate": DATE,
    "metadata": {"a": 1},
    "contentType": "text/plain",
    "aliases": ["g"],
    "md5": "abc",
    "author": "someone",
}


def stored(document: dict[str, Any] | None) -> StoredFile:
    file = StoredFile()
    file._file = document
    return file


def test_fields() -> None:
    file = stored(DOCUMENT)
    assert (file._id, file.filename, file.name, file.length, file.chunk_size) == (1, "f", "f", 9, 4)
    assert (file.upload_date, file.metadata, file.content_type) == (DATE, {"a": 1}, "text/plain")
    assert (file.aliases, file.md5, file.author, file.contentType) == (["g"], "abc", "someone", "text/plain")


def test_fields_that_are_not_there() -> None:
    file = stored({"_id": 1, "length": 0, "chunkSize": 4})
    assert (file.filename, file.metadata, file.content_type, file.aliases, file.md5) == (None,) * 5
    assert stored({}).length == 0
    with pytest.raises(AttributeError, match="the file has no field 'author'"):
        file.author  # noqa: B018
    assert not hasattr(file, "_author")


def test_before_it_is_opened() -> None:
    file = stored(None)
    for name in ("_id", "filename", "length", "author"):
        with pytest.raises(InvalidOperation, match="call open"):
            getattr(file, name)
    assert not hasattr(file, "__length_hint__")
    assert copy.copy(file)._file is None


def test_a_file_for_reading() -> None:
    file = stored(DOCUMENT)
    assert (file.readable(), file.seekable(), file.writable(), file.isatty()) == (True, True, False, False)
    file.flush()
    for step in (partial(file.write, b"x"), partial(file.writelines, []), partial(file.truncate, 5), file.fileno):
        with pytest.raises(io.UnsupportedOperation):
            step()
