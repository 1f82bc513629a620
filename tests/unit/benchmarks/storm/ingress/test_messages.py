"""What the ingress reads in requests, and its rejections."""

from __future__ import annotations

import struct

import bson
import pytest

from benchmarks.documents import MORE_TO_COME, message
from benchmarks.storm.ingress import messages


def with_sequence_first(command: dict[str, object]) -> bytes:
    documents = bson.encode({"x": 1})
    sequence = struct.pack("<i", 4 + 10 + len(documents)) + b"documents\x00" + documents
    body = b"\x00\x00\x00\x00\x01" + sequence + b"\x00" + bson.encode(command)
    return struct.pack("<iiii", 16 + len(body), 7, 0, 2013) + body


def query(command: dict[str, object]) -> bytes:
    body = struct.pack("<i", 4) + b"admin.$cmd\x00" + struct.pack("<ii", 0, -1) + bson.encode(command)
    return struct.pack("<iiii", 16 + len(body), 7, 0, 2004) + body


@pytest.mark.parametrize("make", [lambda command: message(command, 7), with_sequence_first, query])
@pytest.mark.parametrize("name", ["find", "hello", "isMaster"])
def test_the_name_of_the_command_is_read(make: object, name: str) -> None:
    assert callable(make)
    assert messages.parse(make({name: 1, "$db": "x"})) == (name.encode(), True)


def test_a_message_that_expects_no_reply() -> None:
    data = bytearray(message({"insert": "c", "$db": "x"}, 7))
    data[16] |= MORE_TO_COME
    assert messages.parse(bytes(data)) == (b"insert", False)


@pytest.mark.parametrize("opcode", [2012, 1, 2013])
def test_what_cannot_be_read_has_no_name(opcode: int) -> None:
    data = struct.pack("<iiii", 30, 7, 0, opcode) + b"\x00" * 10 + b"\xff" * 4
    assert messages.parse(data).command == b""


def test_a_document_sequence_that_lies_about_its_size_ends() -> None:
    data = struct.pack("<iiii", 30, 7, 0, 2013) + b"\x00" * 4 + b"\x01" + struct.pack("<i", -5) + b"\x01" * 5
    assert messages.parse(data).command == b""


def test_a_rejection_is_the_servers_answer() -> None:
    assert bson.decode(messages.rejection(0.05)) == {
        "ok": 0.0,
        "errmsg": "Rate limiter 'ingressRequestRateLimiter' rate exceeded",
        "code": 462,
        "codeName": "IngressRequestRateLimitExceeded",
        "errorLabels": ["SystemOverloadedError", "RetryableError"],
        "baseBackoffMS": 50,
    }
    assert "baseBackoffMS" not in bson.decode(messages.rejection(None))
