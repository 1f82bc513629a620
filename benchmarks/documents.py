"""Pure: the documents that the benchmarks read, and the constant messages and replies of those that have no server."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import bson
from bson.binary import Binary

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator

DATABASE = "motorlite_test_benchmarks"
COLLECTION = "point_reads"
DOCUMENTS = 10_000
# Replies of these sizes in bytes: so many documents of each follow the others in the collection.
SIZES, EACH_SIZE = (100, 1_000, 10_000, 100_000), 50
STRIDE = 7_919  # prime, hence coprime to DOCUMENTS: every walk visits all documents in a scattered order

HEADER = struct.Struct("<iiii")
OP_REPLY, OP_QUERY, OP_MSG = 1, 2004, 2013
MORE_TO_COME = 1 << 1
HELLO = {
    "helloOk": True,
    "isWritablePrimary": True,
    "ismaster": True,
    "maxBsonObjectSize": 16 * 1024 * 1024,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
    "logicalSessionTimeoutMinutes": 30,
    "minWireVersion": 0,
    "maxWireVersion": 17,
    "readOnly": False,
    "ok": 1.0,
}
"""The reply of a standalone server."""


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


def numbers_of(size: int) -> range:
    """The `_id` of each document of that size."""
    first = DOCUMENTS + SIZES.index(size) * EACH_SIZE
    return range(first, first + EACH_SIZE)


def sized(size: int, number: int) -> dict[str, Any]:
    """A document of so many bytes. zlib makes the longer ones four to five times shorter."""
    parts = [
        {"name": f"part {at:06d}", "code": f"{(number + at) * 2_654_435_761 % 2**32:010d}", "stock": at % 97}
        for at in range((size - 90) // 70)
    ]
    made = {"_id": number, "parts": parts, "rest": ""}
    return {**made, "rest": "." * (size - len(bson.encode(made)))}


def message(command: dict[str, Any], request_id: int) -> bytes:
    """An OP_MSG with a single section of kind 0."""
    body = bson.encode(command)
    return b"".join((HEADER.pack(21 + len(body), request_id, 0, OP_MSG), b"\x00\x00\x00\x00", b"\x00", body))


def find_messages(session: uuid.UUID | None = None) -> list[bytes]:
    """An encoded find message for every document, by its `_id`, in this session or in none."""
    rest: dict[str, Any] = {"limit": 1, "singleBatch": True, "$db": DATABASE}
    if session is not None:
        rest["lsid"] = {"id": Binary.from_uuid(session)}
    numbers = range(numbers_of(SIZES[-1]).stop)
    return [message({"find": COLLECTION, "filter": {"_id": number}, **rest}, number) for number in numbers]


def messages_in(received: bytearray) -> Iterator[bytes]:
    """The whole messages that have arrived, which are taken out of `received`."""
    while len(received) >= 4:
        length = int.from_bytes(received[:4], "little")
        if len(received) < length:
            return
        found = bytes(received[:length])
        del received[:length]
        yield found


def reply_to(message: bytes, body: bytes) -> bytes:
    """The message with an encoded document that answers another one."""
    _, request_id, _, opcode = HEADER.unpack_from(message)
    if opcode == OP_QUERY:  # the first hello of some drivers
        return HEADER.pack(36 + len(body), 1, request_id, OP_REPLY) + struct.pack("<iqii", 8, 0, 0, 1) + body
    return HEADER.pack(21 + len(body), 1, request_id, OP_MSG) + b"\0\0\0\0\0" + body
