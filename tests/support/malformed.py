"""Replies with one error: each field replaced by a value of every BSON type, absent, too deep, or huge."""

from __future__ import annotations

import struct
from copy import deepcopy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.regex import Regex
from bson.timestamp import Timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator

ABSENT: Final = object()


def _nested(levels: int) -> RawBSONDocument:
    """A document nested `levels` deep; Python itself could not encode the deepest."""
    data = b"\x05\x00\x00\x00\x00"
    for _ in range(levels):
        data = struct.pack("<i", len(data) + 8) + b"\x03a\x00" + data + b"\x00"
    return RawBSONDocument(data)


FAR_DATE: Final = DatetimeMS(2**62)
# Values for which `bson` itself raises, by design, in a user's document.
REFUSED: Final = frozenset({"date beyond 9999"})

# Undefined, symbol and DBPointer are decoded as None, text and DBRef.
VALUES: Final[dict[str, Any]] = {
    "absent": ABSENT,
    "double": 2.5,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "beyond 64 bits": 1e300,
    "text": "x",
    "text with NUL": "a\0b.c",
    "long text": "x" * 20_000,
    "document": {"a": 1},
    "array": ["x"],
    "empty array": [],
    "array of documents": [{"index": 0}, {"index": "x", "code": [1], "errInfo": 5}],
    "long array": [{"index": 10**9}] * 100,
    "binary": b"\x00\xff",
    "short UUID": Binary(b"12345", 4),
    "ObjectId": ObjectId(b"\x01" * 12),
    "false": False,
    "true": True,
    "date": datetime(2020, 1, 1, tzinfo=UTC),
    "date beyond 9999": FAR_DATE,
    "null": None,
    "regex": Regex("a", "i"),
    "DBRef": DBRef("coll", 1),
    "code": Code("f()"),
    "code with scope": Code("f()", {"a": 1}),
    "zero": 0,
    "negative": -1,
    "int64": Int64(2**63 - 1),
    "timestamp": Timestamp(2**32 - 1, 2**32 - 1),
    "decimal": Decimal128("NaN"),
    "min key": MinKey(),
    "max key": MaxKey(),
    "deep": _nested(900),
    "too deep": _nested(3_000),
}


def malformed(reply: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """All replies that differ from `reply` in one place, each with a description of the error."""
    for path in _paths(reply):
        for name, value in VALUES.items():
            yield f"{'.'.join(map(str, path))}: {name}", _replaced(reply, path, value)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _paths(inner, (*path, index))


def _replaced(reply: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = deepcopy(reply)
    parent: Any = changed
    for step in path[:-1]:
        parent = parent[step]
    if value is ABSENT:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return changed
