"""The writes of a collection, in one command."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import pytest
from bson import encode
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.son import SON

from motorlite import ReturnDocument, WriteConcern
from motorlite.errors import DuplicateKeyError, InvalidOperation

if TYPE_CHECKING:
    from tests.support.fake_core import Collection, FakeCore

pytestmark = pytest.mark.anyio


async def test_insert_one_gives_an_id(coll: Collection, core: FakeCore) -> None:
    document = {"a": 1}
    result = await coll.insert_one(document)
    assert isinstance(document["_id"], ObjectId)
    assert result.inserted_id == document["_id"]
    assert result.acknowledged
    assert core.last.command == {"insert": "things", "ordered": True, "documents": [document]}


@pytest.mark.parametrize("document", [{"a": 1}, {"a": 1, "_id": 3}, SON(a=1), OrderedDict(a=1)])
async def test_insert_one_sends_the_id_first(coll: Collection, core: FakeCore, document: Any) -> None:
    await coll.insert_one(document)
    assert list(document) == ["a", "_id"]
    (sent,) = core.last.command["documents"]
    assert list(sent.items()) == [("_id", document["_id"]), ("a", 1)]


async def test_insert_one_keeps_an_id(coll: Collection, core: FakeCore) -> None:
    session = coll.database.client.start_session()
    result = await coll.insert_one(
        {"_id": 3}, bypass_document_validation=True, session=session, comment="c", timeoutMS=40
    )
    assert result.inserted_id == 3
    assert core.last.command["bypassDocumentValidation"] is True
    assert core.last.command["comment"] == "c"
    assert core.last.session is session._state
    assert core.last.deadline.timeout == 0.04


async def test_a_raw_document_is_not_looked_into(coll: Collection, core: FakeCore) -> None:
    raw = RawBSONDocument(encode({"a": 1}))
    assert (await coll.insert_one(raw)).inserted_id is None
    assert core.last.command["documents"] == [raw]


async def test_unacknowledged_writes(coll: Collection) -> None:
    coll = coll.with_options(write_concern=WriteConcern(w=0))
    inserted = await coll.insert_one({"_id": 1})
    assert (inserted.acknowledged, inserted.inserted_id) == (False, 1)
    updated = await coll.update_one({}, {"$set": {"a": 1}})
    deleted = await coll.delete_many({})
    many = await coll.insert_many([{"_id": 1}])
    assert [result.acknowledged for result in (updated, deleted, many)] == [False, False, False]
    with pytest.raises(InvalidOperation):
        _ = updated.matched_count
    assert await coll.find_one_and_delete({}) is None


async def test_errors_are_raised(coll: Collection, core: FakeCore) -> None:
    core.reply({"ok": 1, "n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "duplicate"}]})
    with pytest.raises(DuplicateKeyError):
        await coll.insert_one({"_id": 1})


async def test_updates(coll: Collection, core: FakeCore) -> None:
    core.reply(
        {"ok": 1, "n": 1, "nModified": 1},
        {"ok": 1, "n": 5, "nModified": 4},
        {"ok": 1, "n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": 9}]},
    )
    one = await coll.update_one(
        {"a": 1},
        {"$set": {"b": 2}},
        upsert=True,
        bypass_document_validation=True,
        collation={"locale": "de"},
        array_filters=[{"x": 1}],
        hint="a_1",
        let={"v": 1},
        sort={"a": 1},
        comment="c",
    )
    assert (one.matched_count, one.modified_count) == (1, 1)
    assert core.last.command == {
        "update": "things",
        "ordered": True,
        "updates": [
            {
                "q": {"a": 1},
                "u": {"$set": {"b": 2}},
                "upsert": True,
                "collation": {"locale": "de"},
                "hint": "a_1",
                "sort": {"a": 1},
                "arrayFilters": [{"x": 1}],
            }
        ],
        "let": {"v": 1},
        "comment": "c",
        "bypassDocumentValidation": True,
    }
    assert core.last.operation.is_retryable
    many = await coll.update_many({}, [{"$set": {"b": 2}}])
    assert (many.matched_count, many.modified_count) == (5, 4)
    assert core.last.command["updates"] == [{"q": {}, "u": [{"$set": {"b": 2}}], "multi": True}]
    assert not core.last.operation.is_retryable
    replaced = await coll.replace_one({"_id": 9}, {"b": 3}, upsert=True, hint={"_id": 1}, sort={"a": -1})
    assert (replaced.matched_count, replaced.upserted_id) == (0, 9)
    assert core.last.command["updates"] == [
        {"q": {"_id": 9}, "u": {"b": 3}, "upsert": True, "hint": {"_id": 1}, "sort": {"a": -1}}
    ]


async def test_deletes(coll: Collection, core: FakeCore) -> None:
    core.reply({"ok": 1, "n": 1}, {"ok": 1, "n": 7})
    one = await coll.delete_one({"a": 1}, {"locale": "de"}, "a_1", let={"v": 1}, comment="c")
    assert one.deleted_count == 1
    assert core.last.command == {
        "delete": "things",
        "ordered": True,
        "deletes": [{"q": {"a": 1}, "limit": 1, "collation": {"locale": "de"}, "hint": "a_1"}],
        "let": {"v": 1},
        "comment": "c",
    }
    many = await coll.delete_many({"a": 1}, timeoutMS=40)
    assert many.deleted_count == 7
    assert core.last.command["deletes"] == [{"q": {"a": 1}, "limit": 0}]
    assert core.last.deadline.timeout == 0.04


async def test_find_one_and_modify(coll: Collection, core: FakeCore) -> None:
    core.reply({"ok": 1, "value": {"_id": 1}}, *[{"ok": 1, "value": None}] * 2, {"ok": 1, "value": {"_id": 3}})
    found = await coll.find_one_and_update(
        {"a": 1},
        {"$inc": {"n": 1}},
        ["n"],
        [("a", 1)],
        upsert=True,
        return_document=ReturnDocument.AFTER,
        array_filters=[{"x": 1}],
        hint="a_1",
        let={"v": 1},
        comment="c",
        maxTimeMS=5,
        collation={"locale": "de"},
        bypassDocumentValidation=True,
    )
    assert found == {"_id": 1}
    assert core.last.command == {
        "findAndModify": "things",
        "query": {"a": 1},
        "update": {"$inc": {"n": 1}},
        "arrayFilters": [{"x": 1}],
        "new": True,
        "upsert": True,
        "fields": {"n": 1},
        "sort": {"a": 1},
        "hint": "a_1",
        "collation": {"locale": "de"},
        "let": {"v": 1},
        "comment": "c",
        "maxTimeMS": 5,
        "bypassDocumentValidation": True,
    }
    assert await coll.find_one_and_replace({"a": 1}, {"b": 2}, maxTimeMS=5, timeoutMS=40) is None
    without: Any = None  # as PyMongo takes it
    assert await coll.find_one_and_replace({"a": 1}, {"b": 2}, upsert=without) is None
    assert core.last.command == {"findAndModify": "things", "query": {"a": 1}, "update": {"b": 2}}
    assert await coll.find_one_and_delete({"a": 1}, sort="a") == {"_id": 3}
    assert core.last.command == {
        "findAndModify": "things",
        "query": {"a": 1},
        "remove": True,
        "sort": {"a": 1},
    }
