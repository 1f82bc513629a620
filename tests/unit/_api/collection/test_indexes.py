"""Indexes, options, rename and drop."""

from __future__ import annotations

from uuid import uuid4

import pytest
from bson.binary import UuidRepresentation

from motorlite import IndexModel, ReadPreference, WriteConcern
from motorlite.errors import OperationFailure, WriteConcernError
from tests.support.fake_core import Collection, FakeCore, batch, next_batch

pytestmark = pytest.mark.anyio

NOT_FOUND = {"ok": 0, "code": 26, "errmsg": "ns not found"}
FORBIDDEN = {"ok": 0, "code": 13, "errmsg": "no"}


async def test_create_index(coll: Collection, core: FakeCore) -> None:
    assert await coll.create_index([("a", 1), ("b", -1)], comment="c", unique=True, maxTimeMS=5) == "a_1_b_-1"
    assert core.last.command == {
        "createIndexes": "things",
        "indexes": [{"name": "a_1_b_-1", "key": {"a": 1, "b": -1}, "unique": True}],
        "comment": "c",
        "maxTimeMS": 5,
    }
    assert await coll.create_index("a", commitQuorum="majority", maxTimeMS=5, timeoutMS=40) == "a_1"
    assert core.last.command["commitQuorum"] == "majority"
    assert "maxTimeMS" not in core.last.command


async def test_create_indexes(coll: Collection, core: FakeCore) -> None:
    coll = coll.with_options(write_concern=WriteConcern(w="majority"))
    assert await coll.create_indexes([IndexModel("a"), IndexModel("b", name="x")]) == ["a_1", "x"]
    assert core.last.command["writeConcern"] == {"w": "majority"}


async def test_drop_index(coll: Collection, core: FakeCore) -> None:
    core.reply({"ok": 1}, {"ok": 1}, {"ok": 1}, NOT_FOUND, FORBIDDEN)
    await coll.drop_index([("a", 1), ("b", -1)], comment="c", maxTimeMS=4)
    assert core.last.command == {"dropIndexes": "things", "index": "a_1_b_-1", "comment": "c", "maxTimeMS": 4}
    await coll.drop_index([("a", 1), ("a", -1)])
    assert core.last.command["index"] == "a_1_a_-1"
    await coll.drop_index("x", timeoutMS=40)
    assert core.last.command == {"dropIndexes": "things", "index": "x"}
    await coll.drop_indexes()
    assert core.last.command == {"dropIndexes": "things", "index": "*"}
    with pytest.raises(OperationFailure):
        await coll.drop_indexes()


async def test_the_comment_of_drop_indexes_has_the_codec_options_of_the_collection(
    coll: Collection, core: FakeCore
) -> None:
    options = coll.codec_options.with_options(uuid_representation=UuidRepresentation.STANDARD)
    core.reply({"ok": 1})
    await coll.with_options(options).drop_indexes(comment=uuid4())
    assert core.last.operation.codec_options == options


async def test_list_indexes(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([{"name": "_id_"}], 7), next_batch([{"name": "x"}]))
    coll = coll.with_options(read_preference=ReadPreference.NEAREST)
    assert await coll.list_indexes(comment="c", timeoutMS=40).to_list() == [{"name": "_id_"}, {"name": "x"}]
    assert core.executor.sent[0].command == {"listIndexes": "things", "cursor": {}, "comment": "c"}
    assert core.executor.sent[0].operation.selector == ReadPreference.PRIMARY


async def test_a_collection_that_does_not_exist_has_no_indexes(coll: Collection, core: FakeCore) -> None:
    core.reply(NOT_FOUND, NOT_FOUND, NOT_FOUND, FORBIDDEN)
    assert await coll.list_indexes().to_list() == []
    assert await coll.index_information() == {}
    cursor = await coll.list_indexes()
    assert await cursor.try_next() is None
    assert not cursor.alive
    with pytest.raises(OperationFailure):
        await coll.list_indexes()


async def test_index_information(coll: Collection, core: FakeCore) -> None:
    index = {"v": 2, "key": {"a": 1}, "name": "a_1", "unique": True}
    kept = dict(index)
    core.reply(batch([index]))
    assert await coll.index_information() == {"a_1": {"v": 2, "key": [("a", 1)], "unique": True}}
    assert index == kept, "the events of the command have the same document"


async def test_options(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([{"name": "things", "options": {"capped": True}}]), batch([]), batch([{"name": "x"}], 7))
    assert await coll.options(comment="c") == {"capped": True}
    assert core.last.command == {
        "listCollections": 1,
        "cursor": {},
        "filter": {"name": "things"},
        "comment": "c",
    }
    assert await coll.options() == {}
    assert await coll.options() == {}
    assert not core.executor.released, "no cursor was opened that could have kept a session"


async def test_rename(coll: Collection, core: FakeCore) -> None:
    core.reply({"ok": 1}, {"ok": 1}, {"ok": 1, "writeConcernError": {"code": 64}})
    assert await coll.rename("other", comment="c", dropTarget=True, maxTimeMS=4) == {"ok": 1}
    assert core.last.command == {
        "renameCollection": "app.things",
        "to": "app.other",
        "dropTarget": True,
        "maxTimeMS": 4,
        "comment": "c",
    }
    assert core.last.operation.database == "admin"
    majority = coll.with_options(write_concern=WriteConcern(w="majority"))
    await majority.rename("other", maxTimeMS=4, timeoutMS=40)
    assert core.last.command["writeConcern"] == {"w": "majority"}
    assert "maxTimeMS" not in core.last.command
    with pytest.raises(WriteConcernError):
        await majority.rename("other")


async def test_drop(coll: Collection, core: FakeCore) -> None:
    core.reply({"ok": 1}, NOT_FOUND, FORBIDDEN)
    await coll.drop(comment="c")
    assert core.last.command == {"drop": "things", "comment": "c"}
    await coll.drop()
    with pytest.raises(OperationFailure):
        await coll.drop(timeoutMS=40)
    assert core.last.deadline.timeout == 0.04


async def test_unacknowledged_drop(coll: Collection) -> None:
    await coll.with_options(write_concern=WriteConcern(w=0)).drop()
