from __future__ import annotations

import math

import bson

from benchmarks.documents import COLLECTION, DOCUMENTS, STRIDE, document, find_messages, message


def test_documents_have_about_180_bytes() -> None:
    assert all(abs(len(bson.encode(document(number))) - 180) <= 10 for number in (0, 1, 9, DOCUMENTS - 1))


def test_a_walk_with_the_stride_meets_every_document() -> None:
    assert math.gcd(STRIDE, DOCUMENTS) == 1


def test_a_message_is_an_op_msg_with_one_section() -> None:
    data = message({"ping": 1}, 7)
    assert int.from_bytes(data[:4], "little") == len(data)
    assert int.from_bytes(data[4:8], "little") == 7
    assert int.from_bytes(data[12:16], "little") == 2013
    assert data[16:21] == b"\x00" * 5
    assert bson.decode(data[21:]) == {"ping": 1}


def test_the_find_message_of_a_document_asks_for_it() -> None:
    messages = find_messages()
    command = bson.decode(messages[4711][21:])
    assert (command["find"], command["filter"], command["limit"]) == (COLLECTION, {"_id": 4711}, 1)
    assert len(messages) == DOCUMENTS
