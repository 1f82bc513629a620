from __future__ import annotations

import zlib

import bson

from benchmarks.documents import (
    DOCUMENTS,
    SIZES,
    document,
    find_messages,
    message,
    messages_in,
    numbers_of,
    sized,
)


def test_documents_have_about_180_bytes() -> None:
    assert all(abs(len(bson.encode(document(number))) - 180) <= 10 for number in (0, 1, 9, DOCUMENTS - 1))


def test_documents_of_a_size_have_it_and_a_place_of_their_own() -> None:
    for size in SIZES:
        assert {len(bson.encode(sized(size, number))) for number in numbers_of(size)[:3]} == {size}
    places = [number for size in SIZES for number in numbers_of(size)]
    assert places == list(range(DOCUMENTS, len(find_messages())))


def test_compression_makes_long_documents_four_to_five_times_shorter() -> None:
    for size in (10_000, 100_000):
        assert 4 < size / len(zlib.compress(bson.encode(sized(size, DOCUMENTS)))) < 5


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
