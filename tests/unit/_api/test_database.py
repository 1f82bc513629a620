"""Databases: their commands, lists and collections."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import pytest
from bson.codec_options import CodecOptions
from bson.dbref import DBRef

from motorlite import AsyncCollection, AsyncDatabase, ReadConcern, ReadPreference, WriteConcern
from motorlite.errors import (
    CollectionInvalid,
    InvalidOperation,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
)
from tests.support.fake_core import FakeCore, batch, fake_client, next_batch

if TYPE_CHECKING:
    from motorlite import AsyncMongoClient

pytestmark = pytest.mark.anyio


class TestCommand:
    async def test_by_name(self, db: AsyncDatabase[Any], core: FakeCore) -> None:
        core.reply({"ok": 1, "x": 2})
        assert await db.command("ping", comment="c", a=3, timeoutMS=40) == {"ok": 1, "x": 2}
        assert core.last.command == {"ping": 1, "comment": "c", "a": 3}
        assert core.last.deadline.timeout == 0.04
        assert core.last.operation.database == "app"

    async def test_as_a_document(self, db: AsyncDatabase[Any], core: FakeCore) -> None:
        command = {"collStats": "x", "scale": 2}
        await db.command(command, read_preference=ReadPreference.NEAREST)
        assert core.last.command == command
        assert core.last.command is not command
        assert core.last.operation.selector == ReadPreference.NEAREST

    async def test_the_settings_of_the_database_are_not_used(self, db: AsyncDatabase[Any], core: FakeCore) -> None:
        db = db.with_options(
            read_preference=ReadPreference.NEAREST,
            read_concern=ReadConcern("majority"),
            write_concern=WriteConcern(w=2),
        )
        await db.command("ping")
        assert core.last.command == {"ping": 1}
        assert core.last.operation.selector == ReadPreference.PRIMARY

    async def test_errors(self, db: AsyncDatabase[Any], core: FakeCore) -> None:
        failed = {"ok": 0, "code": 59, "errmsg": "no such command"}
        core.reply(failed, failed, failed, failed, failed)
        with pytest.raises(OperationFailure):
            await db.command("x")
        assert await db.command("x", check=False) == failed
        assert await db.command("x", allowable_errors=[59]) == failed
        assert await db.command("x", allowable_errors=["no such command"]) == failed
        with pytest.raises(OperationFailure):
            await db.command("x", allowable_errors=["other", 3])

    async def test_errors_that_are_no_replies_are_raised(self, db: AsyncDatabase[Any], core: FakeCore) -> None:
        core.reply(NetworkTimeout("lost"), {"ok": 0, "code": 10107, "errmsg": "no"})
        with pytest.raises(NetworkTimeout):
            await db.command("x", check=False)
        with pytest.raises(NotPrimaryError):
            await db.command("x")

    async def test_codec_options(self, db: AsyncDatabase[Any], core: FakeCore) -> None:
        core.reply(OrderedDict(ok=1, x=2))
        options: CodecOptions[Any] = CodecOptions(document_class=OrderedDict)
        reply = await db.command("ping", codec_options=options)
        assert type(reply) is OrderedDict
        # The reply is decoded once, as a whole, by the connection.
        operation = core.executor.sent[-1].operation
        assert operation.codec_options is options
        assert operation.document_fields == {}


class TestCursorCommand:
    async def test_a_cursor(self, db: AsyncDatabase[Any], core: FakeCore) -> None:
        core.reply(batch([1], 7), next_batch([2], 7), next_batch([3]))
        cursor: Any = db.cursor_command("find", "things", comment="c", batch_size=2, filter={"a": 1})
        assert core.names == []
        assert await cursor.to_list() == [1, 2, 3]
        # The command is as the user wrote it; the comment is that of the further batches.
        assert core.executor.sent[0].command == {"find": "things", "filter": {"a": 1}}
        assert core.last.command == {"getMore": 7, "collection": "things", "batchSize": 2, "comment": "c"}

    async def test_a_tailable_cursor_is_recognised(self, db: AsyncDatabase[Any], core: FakeCore) -> None:
        core.reply(batch([1], 7), next_batch([2], 7), {"ok": 1})
        command = {"find": "things", "tailable": True, "awaitData": True}
        async with db.cursor_command(command, max_await_time_ms=40, timeoutMS=500) as cursor:
            found: list[Any] = [await cursor.next(), await cursor.next()]
            assert found == [1, 2]
        assert core.executor.sent[0].is_time_limited
        assert core.executor.sent[1].command["maxTimeMS"] == 40

    async def test_a_reply_without_a_cursor(self, db: AsyncDatabase[Any]) -> None:
        with pytest.raises(InvalidOperation, match="no cursor"):
            await db.cursor_command("ping")


async def test_aggregate(db: AsyncDatabase[Any], core: FakeCore) -> None:
    core.reply(batch([1]))
    cursor: Any = db.aggregate([{"$currentOp": {}}], let={"v": 1}, comment="c")
    assert await cursor.to_list() == [1]
    assert core.last.command == {
        "aggregate": 1,
        "pipeline": [{"$currentOp": {}}],
        "let": {"v": 1},
        "comment": "c",
        "cursor": {},
    }


async def test_list_collections(db: AsyncDatabase[Any], core: FakeCore) -> None:
    core.reply(batch([{"name": "a"}], 7), next_batch([{"name": "b"}]), batch([]))
    cursor = db.list_collections(
        filter={"type": "view"}, comment="c", authorizedCollections=True, batchSize=1, maxTimeMS=5
    )
    assert await cursor.to_list() == [{"name": "a"}, {"name": "b"}]
    assert core.executor.sent[0].command == {
        "listCollections": 1,
        "cursor": {"batchSize": 1},
        "filter": {"type": "view"},
        "authorizedCollections": True,
        "comment": "c",
        "maxTimeMS": 5,
    }
    await db.list_collections(maxTimeMS=5, timeoutMS=40, timeoutMode="iteration")
    assert core.last.command == {"listCollections": 1, "cursor": {}}
    assert not core.last.is_time_limited


@pytest.mark.parametrize(
    ("filter", "is_name_only"),
    [(None, True), ({}, True), ({"name": "a"}, True), ({"type": "view"}, False)],
)
async def test_list_collection_names(db: AsyncDatabase[Any], core: FakeCore, filter: Any, is_name_only: bool) -> None:
    core.reply(batch([{"name": "a"}, {"name": "b"}]))
    assert await db.list_collection_names(filter=filter) == ["a", "b"]
    assert ("nameOnly" in core.last.command) is is_name_only


async def test_create_collection(db: AsyncDatabase[Any], core: FakeCore) -> None:
    core.reply(batch([]), {"ok": 1}, {"ok": 1}, batch([{"name": "x"}], 7))
    majority = WriteConcern(w="majority")
    made = await db.create_collection("x", write_concern=majority, capped=True, size=100, timeoutMS=40)
    assert isinstance(made, AsyncCollection)
    assert (made.name, made.write_concern) == ("x", majority)
    look, create = core.executor.sent
    assert look.command == {"listCollections": 1, "cursor": {}, "filter": {"name": "x"}, "nameOnly": True}
    assert create.command == {
        "create": "x",
        "capped": True,
        "size": 100,
        "writeConcern": {"w": "majority"},
    }
    assert look.deadline is create.deadline
    options: CodecOptions[Any] = CodecOptions(tz_aware=True)
    made = await db.create_collection("x", options, check_exists=False, maxTimeMS=4, comment="c")
    assert made.codec_options == options
    assert core.last.command == {"create": "x", "maxTimeMS": 4, "comment": "c"}
    assert core.last.operation.codec_options == options, "those that encode the validator"
    with pytest.raises(CollectionInvalid, match="already exists"):
        await db.create_collection("x")
    assert not core.executor.released, "no cursor was opened that could have kept a session"


async def test_drop_collection(db: AsyncDatabase[Any], core: FakeCore) -> None:
    core.reply({"ok": 1, "ns": "app.x"}, {"ok": 0, "code": 26})
    assert await db.drop_collection("x", comment="c") == {"ok": 1, "ns": "app.x"}
    assert core.last.command == {"drop": "x", "comment": "c"}
    assert await db.drop_collection(db.y) == {"ok": 0, "code": 26}


async def test_validate_collection(db: AsyncDatabase[Any], core: FakeCore) -> None:
    core.reply({"ok": 1, "valid": True}, {"ok": 1, "raw": {"a": {"valid": True}, "b": {"valid": False}}})
    assert await db.validate_collection(db.x, full=True, background=False, comment="c") == {"ok": 1, "valid": True}
    assert core.last.command == {
        "validate": "x",
        "scandata": False,
        "full": True,
        "background": False,
        "comment": "c",
    }
    with pytest.raises(CollectionInvalid, match="not valid"):
        await db.validate_collection("x")


async def test_dereference(db: AsyncDatabase[Any], core: FakeCore) -> None:
    core.reply(batch([{"_id": 3}]))
    assert await db.dereference(DBRef("x", 3), comment="c") == {"_id": 3}
    assert (core.last.command["find"], core.last.command["filter"]) == ("x", {"_id": 3})
    with pytest.raises(ValueError, match="'app'"):
        await db.dereference(DBRef("x", 3, "other"))


class TestSettings:
    def test_they_are_inherited_and_replaced(self) -> None:
        client: AsyncMongoClient = fake_client("mongodb://h/?w=2&timeoutMS=100&readConcernLevel=local")[0]
        assert client.timeoutMS == 100
        db = client.get_database("a", read_preference=ReadPreference.NEAREST)
        assert (db.write_concern, db.read_concern) == (WriteConcern(w=2), ReadConcern("local"))
        coll = db.get_collection("b", write_concern=WriteConcern(w=3), timeoutMS=0)
        assert (coll.read_preference, coll.write_concern) == (ReadPreference.NEAREST, WriteConcern(w=3))
        assert coll.timeoutMS == 0
        assert coll.sub.write_concern == WriteConcern(w=3)
        other = coll.with_options(read_concern=ReadConcern("majority"))
        assert other.read_concern == ReadConcern("majority")
        assert other.write_concern == WriteConcern(w=3)
        assert coll.read_concern == ReadConcern("local")
        assert other.with_options()._settings is other._settings
        assert db.with_options(timeoutMS=7).x.timeoutMS == 7

    def test_nothing_set(self) -> None:
        assert fake_client()[0].timeoutMS is None
        assert fake_client("mongodb://h/?timeoutMS=0")[0].timeoutMS == 0


class TestNames:
    def test_attributes_and_items(self, db: AsyncDatabase[Any]) -> None:
        assert db.x == db["x"] == db.get_collection("x")
        assert db.x.y.full_name == "app.x.y"
        assert db.x.y == db["x.y"]
        assert db.x != db.y
        assert db.x != 3
        assert db != 3
        assert db.client.other != db
        assert len({db.x, db["x"], db, db.client["app"]}) == 2
        assert db.x.database is db
        assert db["_x"].name == "_x"
        assert repr(db.x) == "AsyncCollection(AsyncDatabase(AsyncMongoClient('db.example:27017'), 'app'), 'x')"

    def test_they_have_no_truth_value(self, db: AsyncDatabase[Any]) -> None:
        for holder in (db, db.x):
            with pytest.raises(NotImplementedError, match="None"):
                bool(holder)
