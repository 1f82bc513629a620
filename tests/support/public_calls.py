"""Each public method that sends a command, called once with scripted replies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bson.dbref import DBRef

from motorlite import IndexModel, InsertOne, SearchIndexModel, UpdateMany, UpdateOne
from motorlite.errors import AutoReconnect
from motorlite.write_concern import WriteConcern
from tests.support.fake_core import batch, fake_client, next_batch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite import AsyncMongoClient
    from tests.support.fake_core import Sent

FILE = Path(__file__).resolve().parents[2] / "docs" / "retries.md"

_CURSOR = batch([{"_id": 1}], 7)
_UNACKNOWLEDGED = WriteConcern(0)


class Call(NamedTuple):
    """A public API call: its text, and a function that performs it on a client with scripted replies."""

    text: str
    perform: Callable[[AsyncMongoClient], Awaitable[Any]]
    replies: tuple[Any, ...] = ()
    # The method that it exercises, such as "AsyncCollection.find".
    method: str = ""


def _collection(text: str, perform: Callable[[Any], Awaitable[Any]], *replies: Any) -> Call:
    name = text.partition("(")[0].removeprefix("collection.")
    return Call(text, lambda client: perform(client.app.things), replies, f"AsyncCollection.{name}")


def _database(text: str, perform: Callable[[Any], Awaitable[Any]], *replies: Any) -> Call:
    name = text.partition("(")[0].removeprefix("database.")
    return Call(text, lambda client: perform(client.app), replies, f"AsyncDatabase.{name}")


def _client(text: str, perform: Callable[[AsyncMongoClient], Awaitable[Any]], *replies: Any) -> Call:
    name = text.partition("(")[0].removeprefix("client.")
    return Call(text, perform, replies, f"AsyncMongoClient.{name}")


def _unopened(text: str, perform: Callable[[Any], Awaitable[Any]], *replies: Any) -> Call:
    """A call on an unopened cursor from find()."""
    name = text.partition("(")[0].removeprefix("cursor.")
    return Call(text, lambda client: perform(client.app.things.find()), replies, f"AsyncCursor.{name}")


def _cursor(text: str, perform: Callable[[Any], Awaitable[Any]], *replies: Any) -> Call:
    """A call on a cursor from find() after its first batch was read."""
    name = text.partition("(")[0].removeprefix("cursor.")

    async def on_cursor(client: AsyncMongoClient) -> None:
        cursor = client.app.things.find()
        await cursor.next()
        await perform(cursor)

    return Call(text, on_cursor, (_CURSOR, *replies), f"AsyncCursor.{name}")


def _command_cursor(text: str, perform: Callable[[Any], Awaitable[Any]], *replies: Any) -> Call:
    """A call on a cursor from aggregate() after its first batch was read."""
    name = text.partition("(")[0].removeprefix("command_cursor.")

    async def on_cursor(client: AsyncMongoClient) -> None:
        cursor = await client.app.things.aggregate([])
        await cursor.next()
        await perform(cursor)

    return Call(text, on_cursor, (_CURSOR, *replies), f"AsyncCommandCursor.{name}")


def _stream(text: str, perform: Callable[[Any], Awaitable[Any]], *replies: Any) -> Call:
    """A call on a change stream after its first batch was read."""
    name = text.partition("(")[0].removeprefix("stream.")

    async def on_stream(client: AsyncMongoClient) -> None:
        stream = await client.app.things.watch()
        await stream.next()
        await perform(stream)

    return Call(text, on_stream, (_CURSOR, *replies), f"AsyncChangeStream.{name}")


def _session(text: str, perform: Callable[[Any], Awaitable[Any]]) -> Call:
    """A call on a session with a transaction in progress."""
    name = text.partition("(")[0].removeprefix("session.")

    async def in_transaction(client: AsyncMongoClient) -> None:
        async with client.start_session() as session:
            if name != "with_transaction":
                session.start_transaction()
                await client.app.things.insert_one({}, session=session)
            await perform(session)

    return Call(text, in_transaction, (), f"AsyncClientSession.{name}")


_CHANGE = {"$set": {"a": 1}}
_EMPTY = batch([])
_LOST = AutoReconnect("lost")
_CREATED = {"ok": 1, "indexesCreated": [{"id": "1", "name": "default"}]}

READS: tuple[Call, ...] = (
    _collection("collection.find(...)", lambda c: c.find().to_list(), _EMPTY),
    _collection("collection.find_raw_batches(...)", lambda c: c.find_raw_batches().to_list(), _EMPTY),
    _collection("collection.find_one(...)", lambda c: c.find_one(), _EMPTY),
    _collection("collection.aggregate([...])", lambda c: c.aggregate([]), _EMPTY),
    _collection("collection.aggregate_raw_batches([...])", lambda c: c.aggregate_raw_batches([]), _EMPTY),
    _collection("collection.watch(...)", lambda c: c.watch(), _EMPTY),
    _collection("collection.distinct(...)", lambda c: c.distinct("a"), {"ok": 1, "values": []}),
    _collection("collection.count_documents(...)", lambda c: c.count_documents({}), _EMPTY),
    _collection("collection.estimated_document_count()", lambda c: c.estimated_document_count(), {"ok": 1, "n": 0}),
    _collection("collection.list_indexes()", lambda c: c.list_indexes().to_list(), _EMPTY),
    _collection("collection.list_search_indexes()", lambda c: c.list_search_indexes(), _EMPTY),
    _collection("collection.index_information()", lambda c: c.index_information(), _EMPTY),
    _collection("collection.options()", lambda c: c.options(), _EMPTY),
    _database("database.aggregate([...])", lambda d: d.aggregate([{"$currentOp": {}}]), _EMPTY),
    _database("database.watch(...)", lambda d: d.watch(), _EMPTY),
    _database("database.list_collections()", lambda d: d.list_collections(), _EMPTY),
    _database("database.list_collection_names()", lambda d: d.list_collection_names(), _EMPTY),
    _database("database.dereference(...)", lambda d: d.dereference(DBRef("things", 1)), _EMPTY),
    _client("client.watch(...)", lambda c: c.watch(), _EMPTY),
    _client("client.list_databases()", lambda c: c.list_databases(), {"ok": 1, "databases": []}),
    _client("client.list_database_names()", lambda c: c.list_database_names(), {"ok": 1, "databases": []}),
    _unopened("cursor.distinct(...)", lambda c: c.distinct("a"), {"ok": 1, "values": []}),
)
CURSORS: tuple[Call, ...] = (
    _cursor("cursor.next()", lambda c: c.next(), next_batch([{}])),
    _cursor("cursor.to_list()", lambda c: c.to_list(), next_batch([])),
    _cursor("cursor.batches()", lambda c: anext(c.batches()), next_batch([{}])),
    _cursor("cursor.close()", lambda c: c.close()),
    _cursor("cursor.rewind()", lambda c: c.rewind()),
    _command_cursor("command_cursor.next()", lambda c: c.next(), next_batch([{}])),
    _command_cursor("command_cursor.try_next()", lambda c: c.try_next(), next_batch([{}])),
    _command_cursor("command_cursor.to_list()", lambda c: c.to_list(), next_batch([])),
    _command_cursor("command_cursor.batches()", lambda c: anext(c.batches()), next_batch([{}])),
    _command_cursor("command_cursor.close()", lambda c: c.close()),
    _stream("stream.next()", lambda s: s.next(), next_batch([{"_id": {}}])),
    _stream("stream.next() after a failure", lambda s: s.next(), _LOST, batch([{"_id": {}}])),
    _stream("stream.try_next()", lambda s: s.try_next(), next_batch([])),
    _stream("stream.try_next() after a failure", lambda s: s.try_next(), _LOST, _EMPTY),
    _stream("stream.to_list()", lambda s: s.to_list(), next_batch([])),
    _stream("stream.to_list() after a failure", lambda s: s.to_list(), _LOST, _EMPTY),
    _stream("stream.close()", lambda s: s.close()),
)
WRITES: tuple[Call, ...] = (
    _collection("collection.insert_one(...)", lambda c: c.insert_one({})),
    _collection("collection.insert_many([...])", lambda c: c.insert_many([{}]), {"ok": 1, "n": 1}),
    _collection("collection.update_one(...)", lambda c: c.update_one({}, _CHANGE), {"ok": 1, "n": 1}),
    _collection("collection.replace_one(...)", lambda c: c.replace_one({}, {}), {"ok": 1, "n": 1}),
    _collection("collection.delete_one(...)", lambda c: c.delete_one({}), {"ok": 1, "n": 1}),
    _collection("collection.update_many(...)", lambda c: c.update_many({}, _CHANGE), {"ok": 1, "n": 1}),
    _collection("collection.delete_many(...)", lambda c: c.delete_many({}), {"ok": 1, "n": 1}),
    _collection("collection.find_one_and_update(...)", lambda c: c.find_one_and_update({}, _CHANGE)),
    _collection("collection.find_one_and_replace(...)", lambda c: c.find_one_and_replace({}, {})),
    _collection("collection.find_one_and_delete(...)", lambda c: c.find_one_and_delete({})),
    _collection(
        "collection.bulk_write([InsertOne(...), UpdateOne(...)])",
        lambda c: c.bulk_write([InsertOne({}), UpdateOne({}, _CHANGE)]),
        {"ok": 1, "n": 1},
        {"ok": 1, "n": 1, "nModified": 1},
    ),
    _collection(
        "collection.bulk_write([UpdateMany(...)])",
        lambda c: c.bulk_write([UpdateMany({}, _CHANGE)]),
        {"ok": 1, "n": 1, "nModified": 1},
    ),
    _client(
        "client.bulk_write([InsertOne(...), UpdateOne(...)])",
        lambda c: c.bulk_write([InsertOne({}, "app.things"), UpdateOne({}, _CHANGE, namespace="app.others")]),
        {"ok": 1, "cursor": {"id": 0, "ns": "admin.$cmd.bulkWrite", "firstBatch": []}},
    ),
    _client(
        "client.bulk_write([UpdateMany(...)])",
        lambda c: c.bulk_write([UpdateMany({}, _CHANGE, namespace="app.things")]),
        {"ok": 1, "cursor": {"id": 0, "ns": "admin.$cmd.bulkWrite", "firstBatch": []}},
    ),
    _collection(
        "collection.insert_one(...) with w=0",
        lambda c: c.with_options(write_concern=_UNACKNOWLEDGED).insert_one({}),
    ),
    _collection("collection.aggregate([..., {$out: ...}])", lambda c: c.aggregate([{"$out": "x"}]), _EMPTY),
)
ADMINISTRATION: tuple[Call, ...] = (
    _collection("collection.create_index(...)", lambda c: c.create_index("a")),
    _collection("collection.create_indexes([...])", lambda c: c.create_indexes([IndexModel("a")])),
    _collection("collection.drop_index(...)", lambda c: c.drop_index("a")),
    _collection("collection.drop_indexes()", lambda c: c.drop_indexes()),
    _collection("collection.create_search_index(...)", lambda c: c.create_search_index({"definition": {}}), _CREATED),
    _collection(
        "collection.create_search_indexes([...])",
        lambda c: c.create_search_indexes([SearchIndexModel({})]),
        _CREATED,
    ),
    _collection("collection.update_search_index(...)", lambda c: c.update_search_index("a", {})),
    _collection("collection.drop_search_index(...)", lambda c: c.drop_search_index("a")),
    _collection("collection.drop()", lambda c: c.drop()),
    _collection("collection.rename(...)", lambda c: c.rename("x")),
    _database("database.create_collection(...)", lambda d: d.create_collection("x", check_exists=False)),
    _database("database.drop_collection(...)", lambda d: d.drop_collection("x")),
    _client("client.drop_database(...)", lambda c: c.drop_database("x")),
)
TRANSACTIONS: tuple[Call, ...] = (
    _session("session.commit_transaction()", lambda s: s.commit_transaction()),
    _session("session.abort_transaction()", lambda s: s.abort_transaction()),
    _session("session.end_session()", lambda s: s.end_session()),
    _session(
        "session.with_transaction(...)",
        lambda s: s.with_transaction(lambda s: s.client.app.things.insert_one({}, session=s)),
    ),
)
COMMANDS: tuple[Call, ...] = (
    _database("database.command(...)", lambda d: d.command("ping")),
    _database("database.cursor_command(...)", lambda d: d.cursor_command("find", "things"), _EMPTY),
    _database(
        "database.validate_collection(...)",
        lambda d: d.validate_collection("x"),
        {"ok": 1, "valid": True},
    ),
    _client("client.server_info()", lambda c: c.server_info()),
    _unopened("cursor.explain()", lambda c: c.explain()),
)
SECTIONS = {
    "Reads": READS,
    "Cursors": CURSORS,
    "Writes": WRITES,
    "Administration": ADMINISTRATION,
    "Transactions": TRANSACTIONS,
    "Commands": COMMANDS,
}
# Methods whose commands do not fit into the tables.
ELSEWHERE = {
    "AsyncMongoClient.close": "sends endSessions once, on a best-effort basis: its retries do not matter",
    "AsyncMongoClient.aclose": "the same as close",
    "AsyncCursor.aclose": "the same as close",
    "AsyncCommandCursor.aclose": "the same as close",
    "AsyncChangeStream.aclose": "the same as close",
}


async def sent_by(call: Call) -> list[Sent]:
    """Operations that a call passes to the executor; for cursor methods, without the one that opened the cursor."""
    client, core = fake_client()
    core.reply(*call.replies)
    await call.perform(client)
    await core.run_spawned()
    if call in TRANSACTIONS:
        return [sent for sent in core.executor.sent if sent.operation.ends is not None]
    return core.executor.sent[1:] if call.replies[:1] == (_CURSOR,) else core.executor.sent
