"""All public methods that take a session, each with a call of it."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from bson import DBRef

from motorlite import (
    AsyncCollection,
    AsyncCursor,
    AsyncDatabase,
    AsyncMongoClient,
    IndexModel,
    InsertOne,
    SearchIndexModel,
)
from motorlite.errors import OperationFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Client = AsyncMongoClient[dict[str, Any]]
    Collection = AsyncCollection[dict[str, Any]]
    # The collection has two documents, and the index that is dropped.
    Call = Callable[[Collection, Any], Awaitable[Any]]

SET: Final = {"$set": {"b": 1}}


async def _refused(call: Awaitable[Any]) -> None:
    """A server without Atlas Search refuses the command, after it was sent with its session."""
    with suppress(OperationFailure):
        await call


async def _watched(stream: Any) -> None:
    """A standalone server refuses the command, after it was sent with its session."""
    with suppress(OperationFailure):
        async with stream:
            await stream.try_next()


SEARCH: Final[dict[str, Call]] = {
    "collection.create_search_index": lambda c, s: _refused(c.create_search_index({"definition": {}}, session=s)),
    "collection.create_search_indexes": lambda c, s: _refused(
        c.create_search_indexes([SearchIndexModel({})], session=s)
    ),
    "collection.drop_search_index": lambda c, s: _refused(c.drop_search_index("a", session=s)),
    "collection.list_search_indexes": lambda c, s: _refused(c.list_search_indexes(session=s).to_list()),
    "collection.update_search_index": lambda c, s: _refused(c.update_search_index("a", {}, session=s)),
}
# Only replica sets and sharded clusters have them.
STREAMS: Final[dict[str, Call]] = {
    "client.watch": lambda c, s: _watched(c.database.client.watch(session=s, max_await_time_ms=1)),
    "database.watch": lambda c, s: _watched(c.database.watch(session=s, max_await_time_ms=1)),
    "collection.watch": lambda c, s: _watched(c.watch(session=s, max_await_time_ms=1)),
}
CALLS: Final[dict[str, Call]] = {
    **SEARCH,
    **STREAMS,
    "client.drop_database": lambda c, s: c.database.client.drop_database(c.database, session=s),
    "client.list_database_names": lambda c, s: c.database.client.list_database_names(session=s),
    "client.list_databases": lambda c, s: c.database.client.list_databases(session=s).to_list(),
    "client.server_info": lambda c, s: c.database.client.server_info(session=s),
    "database.aggregate": lambda c, s: c.database.aggregate([{"$listLocalSessions": {}}], session=s).to_list(),
    "database.command": lambda c, s: c.database.command("ping", session=s),
    "database.create_collection": lambda c, s: c.database.create_collection("new", session=s),
    "database.cursor_command": lambda c, s: _all(c.database.cursor_command("find", c.name, session=s)),
    "database.dereference": lambda c, s: c.database.dereference(DBRef(c.name, 1), session=s),
    "database.drop_collection": lambda c, s: c.database.drop_collection(c.name, session=s),
    "database.list_collection_names": lambda c, s: c.database.list_collection_names(session=s),
    "database.list_collections": lambda c, s: c.database.list_collections(session=s).to_list(),
    "database.validate_collection": lambda c, s: c.database.validate_collection(c.name, session=s),
    "collection.aggregate": lambda c, s: c.aggregate([], session=s).to_list(),
    "collection.aggregate_raw_batches": lambda c, s: c.aggregate_raw_batches([], session=s).to_list(),
    "collection.bulk_write": lambda c, s: c.bulk_write([InsertOne({})], session=s),
    "collection.count_documents": lambda c, s: c.count_documents({}, session=s),
    "collection.create_index": lambda c, s: c.create_index("b", session=s),
    "collection.create_indexes": lambda c, s: c.create_indexes([IndexModel("b")], session=s),
    "collection.delete_many": lambda c, s: c.delete_many({}, session=s),
    "collection.delete_one": lambda c, s: c.delete_one({}, session=s),
    "collection.distinct": lambda c, s: c.distinct("a", session=s),
    "collection.drop": lambda c, s: c.drop(session=s),
    "collection.drop_index": lambda c, s: c.drop_index("a_1", session=s),
    "collection.drop_indexes": lambda c, s: c.drop_indexes(session=s),
    "collection.find": lambda c, s: c.find(session=s, batch_size=1).to_list(),
    "collection.find_raw_batches": lambda c, s: c.find_raw_batches(session=s).to_list(),
    "collection.find_one": lambda c, s: c.find_one(session=s),
    "collection.find_one_and_delete": lambda c, s: c.find_one_and_delete({}, session=s),
    "collection.find_one_and_replace": lambda c, s: c.find_one_and_replace({}, {}, session=s),
    "collection.find_one_and_update": lambda c, s: c.find_one_and_update({}, SET, session=s),
    "collection.index_information": lambda c, s: c.index_information(session=s),
    "collection.insert_many": lambda c, s: c.insert_many([{}], session=s),
    "collection.insert_one": lambda c, s: c.insert_one({}, session=s),
    "collection.list_indexes": lambda c, s: c.list_indexes(session=s).to_list(),
    "collection.options": lambda c, s: c.options(session=s),
    "collection.rename": lambda c, s: c.rename("new", session=s),
    "collection.replace_one": lambda c, s: c.replace_one({}, {}, session=s),
    "collection.update_many": lambda c, s: c.update_many({}, SET, session=s),
    "collection.update_one": lambda c, s: c.update_one({}, SET, session=s),
    "cursor.distinct": lambda c, s: c.find(session=s).distinct("a"),
    "cursor.explain": lambda c, s: c.find(session=s).explain(),
}
# Refused before anything is sent to a server older than MongoDB 8.0; tests/sim/test_client_bulk_write.py has its tests.
_ELSEWHERE: Final = {"client.bulk_write"}
# These hand their keyword arguments on.
_HAND_ON: Final = [
    "collection.find",
    "collection.find_one",
    "collection.find_raw_batches",
    "cursor.distinct",
    "cursor.explain",
]


async def _all(cursor: Any) -> list[Any]:
    return [document async for document in cursor]


def found() -> list[str]:
    """The names of the methods that have a parameter `session`, and of those that hand it on."""
    kinds: dict[str, type[Any]] = {
        "client": AsyncMongoClient,
        "database": AsyncDatabase,
        "collection": AsyncCollection,
        "cursor": AsyncCursor,
    }
    names = [
        f"{word}.{name}"
        for word, kind in kinds.items()
        for name, method in inspect.getmembers_static(kind, inspect.isfunction)
        if not name.startswith("_") and "session" in inspect.signature(method).parameters
    ]
    return sorted({*names, *_HAND_ON} - _ELSEWHERE)


async def prepare(client: Client, database_name: str, method: str) -> Collection:
    """The collection that a call needs, as it was before any other call."""
    database = client[database_name]
    # Not the database: on a replica set that takes longer than all the rest, as indexes do.
    await database.drop_collection("c")
    await database.drop_collection("new")
    await database.c.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 2}])
    if method == "collection.drop_index":
        await database.c.create_index("a")
    return database.c
