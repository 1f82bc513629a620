from __future__ import annotations

import bson

from benchmarks.documents import DOCUMENTS, document, message, messages_in


def test_documents_have_about_180_bytes() -> None:
    assert all(abs(len(bson.encode(document(number))) - 180) <= 10 for number in (0, 1, 9, DOCUMENTS - 1))


def test_messages_arrive_in_any_pieces() -> None:
    sent = [message({"find": "a" * number}, number) for number in range(3)]
    for size in (1, 7, 1_000):
        received = bytearray()
        found: list[bytes] = []
        data = b"".join(sent)
        for at in range(0, len(data), size):
            received += data[at : at + size]
            found += messages_in(received)
        assert found == sent
        assert not received
