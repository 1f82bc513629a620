"""Pure: the documents that the benchmarks read, and the constant messages of the bare arm."""

from __future__ import annotations

import struct
from typing import Any

import bson

DATABASE = "motorlite_test_benchmarks"
COLLECTION = "point_reads"
DOCUMENTS = 10_000
STRIDE = 7_919  # prime, hence coprime to DOCUMENTS: every walk visits all documents in a scattered order

_OP_MSG = 2013
_HEADER = struct.Struct("<iiii")


def document(number: int) -> dict[str, Any]:
    """A small document of about 180 bytes with the usual mix of types."""
    return {
        "_id": number,
        "name": f"customer {number:06d}",
        "email": f"c{number:06d}@example.com",
        "visits": number % 97,
        "balance": number * 1.25,
        "active": number % 3 == 0,
        "tags": ["alpha", "beta"],
        "address": {"city": "Bern", "code": number},
    }


def message(command: dict[str, Any], request_id: int) -> bytes:
    """An OP_MSG with a single section of kind 0."""
    body = bson.encode(command)
    return b"".join((_HEADER.pack(21 + len(body), request_id, 0, _OP_MSG), b"\x00\x00\x00\x00", b"\x00", body))


def find_messages() -> list[bytes]:
    """An encoded find message for every document, by its `_id`."""
    return [
        message(
            {
                "find": COLLECTION,
                "filter": {"_id": number},
                "limit": 1,
                "singleBatch": True,
                "$db": DATABASE,
            },
            number,
        )
        for number in range(DOCUMENTS)
    ]
