"""New identifiers: those that `bson` would generate one after another."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.son import SON

from motorlite._api.collection import documents
from motorlite._api.collection.documents import id_first, identify, new_ids


def counter(identifier: bytes) -> int:
    return int.from_bytes(identifier[9:], "big")


def test_they_share_the_counter_of_bson() -> None:
    before, made, after = ObjectId().binary, new_ids(3), ObjectId().binary
    assert [counter(one) - counter(before) for one in (*made, after)] == [1, 2, 3, 4]
    assert {one[4:9] for one in (before, *made, after)} == {before[4:9]}
    assert int.from_bytes(before[:4], "big") <= int.from_bytes(made[0][:4], "big") <= int.from_bytes(after[:4], "big")


def test_the_counter_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectId, "_inc", 2**24 - 2)
    assert [counter(one) for one in new_ids(4)] == [2**24 - 2, 2**24 - 1, 0, 1]
    assert counter(ObjectId().binary) == 2


def test_one() -> None:
    before = ObjectId().binary
    assert [counter(one) - counter(before) for one in new_ids(1)] == [1]
    assert counter(ObjectId().binary) == (counter(before) + 2) % 2**24


def test_threads_get_different_ones() -> None:
    found: list[bytes] = []

    def work() -> None:
        for _ in range(200):
            found.extend(new_ids(7))
            found.append(ObjectId().binary)

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(found) == 4 * 200 * 8


@pytest.mark.parametrize("missing", ["_inc", "_inc_lock"])
def test_a_bson_that_makes_them_differently(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    assert documents._can_reserve()

    class Other:
        """Counts elsewhere, and has only some of the names."""

        _inc_lock, _inc, count = ObjectId._inc_lock, 5, 0

        def __init__(self) -> None:
            Other.count += 1
            self.binary = bytes(9) + Other.count.to_bytes(3, "big")

    monkeypatch.setattr(documents, "ObjectId", Other)
    assert not documents._can_reserve(), "the counter is another one"
    delattr(Other, missing)
    assert not documents._can_reserve()
    monkeypatch.setattr(documents, "_RESERVES", False)
    assert [counter(one) for one in new_ids(2)] == [Other.count - 1, Other.count]


def test_identify() -> None:
    document: dict[str, Any] = {"a": 1}
    identifier = identify(document)
    assert isinstance(identifier, ObjectId)
    assert list(document.items()) == [("a", 1), ("_id", identifier)]
    assert identify(document) is identifier
    assert identify({"_id": None}) is None
    assert identify(RawBSONDocument(b"\5\0\0\0\0")) is None


def test_id_first() -> None:
    assert list(id_first({"a": 1, "_id": 2})) == ["_id", "a"]
    document: Any = SON(_id=2, a=1)
    assert id_first(document) is document
