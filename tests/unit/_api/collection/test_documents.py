"""Documents to insert get an `_id`, and are encoded ahead where that is worth it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions, TypeRegistry
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.son import SON

from motorlite._api.collection.documents import take_documents
from motorlite._operations.bulk import BulkRun, InsertBatch, insert_run
from motorlite._operations.slices import MAX_SIZE, all_at_once
from tests.support.servers import V7_0

if TYPE_CHECKING:
    from collections.abc import Iterator


def take(documents: list[Any], options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS) -> tuple[BulkRun, list[Any]]:
    run = insert_run(documents)
    return run, all_at_once(take_documents(run, options))


def sent(run: BulkRun) -> list[bytes]:
    """What the batches have, whatever was encoded ahead."""
    start, found = 0, list[bytes]()
    while start < len(run.statements):
        batch = InsertBatch("db", "coll", run, start)
        (sequence,) = batch.command(V7_0).sequences
        found += sequence.documents
        start += batch.count
    return found


def test_documents_without_an_id() -> None:
    documents = [{"n": number} for number in range(200)]
    run, ids = take(documents)
    assert [list(document.items()) for document in documents] == [[("n", n), ("_id", ids[n])] for n in range(200)]
    assert ids == sorted(set(ids))
    assert all(type(one) is ObjectId for one in ids)
    assert len(run.encoded) == 200, "ahead"
    assert sent(run) == [bson.encode({"_id": one, "n": n}) for n, one in enumerate(ids)]


@pytest.mark.parametrize("with_id", [0, 1, 40, 100, 199])
def test_one_of_them_has_an_id(with_id: int) -> None:
    documents: list[Any] = [{"n": number} for number in range(200)]
    documents[with_id] = {"n": with_id, "_id": {"a": 1}}
    run, ids = take(documents)
    assert ids == [document["_id"] for document in documents]
    assert ids[with_id] == {"a": 1}
    assert len(run.encoded) <= with_id
    assert sent(run) == list(map(bson.encode, documents))


def test_the_same_document_twice() -> None:
    one: dict[str, Any] = {"a": 1}
    run, ids = take([one, {"b": 1}, one])
    assert ids[0] is ids[2] is one["_id"]
    assert sent(run)[0] == sent(run)[2] == bson.encode(one), "the server refuses the second one"
    later: dict[str, Any] = {"a": 1}
    documents = [{"n": number} for number in range(100)]
    run, ids = take([later, *documents, later])
    assert ids[0] is ids[101] is later["_id"]
    assert len(set(ids)) == 101


@pytest.mark.parametrize("kind", [SON, OrderedDict])
def test_other_mappings(kind: Any) -> None:
    documents = [{"n": 1}, kind(n=2), RawBSONDocument(bson.encode({"n": 3})), {"n": 4}]
    run, ids = take(documents)
    assert ids == [documents[index]["_id"] for index in (0, 1, 3)]
    assert sent(run) == list(map(bson.encode, documents))


@pytest.mark.parametrize("wrong", [5, None, [{}], "a", ((1, 2),)])
def test_what_is_no_document(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"documents\[1\] must be .*, not "):
        take([{}, wrong])
    with pytest.raises(TypeError, match=r"documents\[100\] must be .*, not "):
        take([*({} for _ in range(100)), wrong])


def test_what_cannot_be_encoded_gets_its_id_all_the_same() -> None:
    documents: list[Any] = [{"n": number} for number in range(200)]
    documents[150]["n"] = object()
    run, ids = take(documents)
    assert ids == [document["_id"] for document in documents]
    assert 64 <= len(run.encoded) <= 150
    with pytest.raises(bson.errors.InvalidDocument) as caught:
        sent(run)
    assert caught.value.__notes__ == ["in insert 150 of the bulk write"]


def test_codecs_of_user_types_run_once() -> None:
    seen: list[Any] = []

    def encode(value: Any) -> str:
        seen.append(value)
        return "x"

    run, ids = take([{"a": {1}}, {"a": {2}}], CodecOptions(type_registry=TypeRegistry(fallback_encoder=encode)))
    assert seen == []
    assert run.encoded == []
    assert len(ids) == 2


class Spy(Mapping[str, Any]):
    """A value that adds an `_id` to a document while `bson` reads it."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def __iter__(self) -> Iterator[str]:
        self.document["_id"] = "from within"
        return iter(())

    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)


def test_a_value_that_changes_its_document() -> None:
    document: dict[str, Any] = {"n": 1}
    run, ids = take([{"value": Spy(document)}, document])
    assert document["_id"] == ids[1] == "from within"
    assert [bson.decode(data)["_id"] for data in sent(run)] == ids


def test_no_more_is_encoded_ahead_than_a_batch_has() -> None:
    documents: list[Any] = [{"b": b"x" * 2**20} for _ in range(20)]
    run, ids = take(documents)
    size = sum(map(len, run.encoded))
    assert MAX_SIZE <= size <= MAX_SIZE + 2**20 + 100
    assert len(ids) == 20
    assert sent(run) == [bson.encode(document) for document in documents]
    run = insert_run([{}])
    all_at_once(take_documents(run, DEFAULT_CODEC_OPTIONS, encodes=False))
    assert run.encoded == []
    assert "_id" in run.statements[0]
