"""Every operation of the public API, with the replies that its command may get."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio

from motorlite import CursorType, DeleteOne, IndexModel, InsertOne, UpdateOne
from motorlite._operations.single_writes import MANY_FIELDS
from motorlite.errors import PyMongoError
from motorlite.operations import SearchIndexModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

CONCERN: Final[dict[str, Any]] = {"code": 64, "errmsg": "waiting for replication", "errInfo": {"wtimeout": True}}
ERROR: Final[dict[str, Any]] = {"index": 0, "code": 11000, "errmsg": "duplicate", "errInfo": {}}
SHUTTING_DOWN: Final[dict[str, Any]] = {**CONCERN, "code": 91, "errmsg": "shutting down"}
OK: Final[dict[str, Any]] = {"ok": 1.0}


def cursor(batch: str, *documents: Any, cursor_id: int = 0, namespace: str = "db.coll") -> dict[str, Any]:
    return {**OK, "cursor": {"id": cursor_id, "ns": namespace, batch: list(documents)}}


def written() -> list[dict[str, Any]]:
    """Replies to a write: it succeeded, failed, or its write concern did, perhaps so that it may be retried."""
    version = {"processId": 1, "counter": 1}
    return [
        {**OK, "n": 1},
        {**OK, "n": 0, "writeErrors": [ERROR], "errorLabels": ["a label"]},
        {**OK, "n": 1, "writeConcernError": CONCERN},
        {
            "writeConcernError": SHUTTING_DOWN,
            "errorLabels": ["RetryableWriteError"],
            "topologyVersion": version,
        },
    ]


# For writes whose replies are read as those of another one are.
LIKEWISE: Final[list[dict[str, Any]]] = [
    {"n": 1, "nModified": 1},
    {"n": 0, "writeErrors": [{"index": 0}], "writeConcernError": {}, "errorLabels": ["a label"]},
]
ADMINISTERED: Final = [OK, {"writeConcernError": CONCERN, "errorLabels": ["a label"]}]


class Case(NamedTuple):
    command: str
    call: Callable[[Any], Awaitable[Any]]
    # The replies that are spoilt; the first is also one that the call succeeds with.
    replies: list[dict[str, Any]]
    # What the other commands of the call are answered with.
    others: Mapping[str, dict[str, Any]] = MappingProxyType({})


async def iterate(cursor: Any) -> Any:
    async with cursor:
        return [document async for document in cursor]


async def half_read(client: Any) -> Any:
    """Leaves a cursor open, closes it."""
    found = client.db.coll.find(batch_size=1)
    await found.next()
    await found.close()


async def dropped(client: Any) -> Any:
    """Leaves a cursor to the garbage collector."""
    found = client.db.coll.find(batch_size=1)
    await found.next()
    del found
    await anyio.sleep(20)  # until the last attempt to kill it


async def watch(client: Any) -> Any:
    async with client.db.coll.watch() as stream:
        return await stream.to_list()


async def in_transaction(client: Any, end: str) -> Any:
    """Ends a transaction."""
    async with client.start_session() as session:
        session.start_transaction()
        await client.db.coll.insert_one({}, session=session)
        await getattr(session, end)()


OPEN: Final = cursor("firstBatch", {"_id": 1}, cursor_id=7)
MORE: Final = cursor("nextBatch", {"_id": 2})
WATCHED: Final = cursor("firstBatch", {"_id": {"_data": "1"}}, cursor_id=7)
WATCHED["cursor"]["postBatchResumeToken"] = {"_data": "2"}
CHANGED: Final = cursor("nextBatch", {"_id": {"_data": "3"}})
COLLECTION: Final = {"name": "coll", "options": {}}
INDEX: Final = {"key": {"a": 1}, "name": "a_1"}
COUNTED: Final = cursor("firstBatch", {"_id": 1, "n": 3})
UPDATED: Final = [{"n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": 5}]}, LIKEWISE[1]]

BULK: Final = "admin.$cmd.bulkWrite"
SINGLE_RESULT: Final = {"ok": 1, "idx": 0, "n": 1, "nModified": 0, "upserted": {"_id": 5}}
BULK_WRITTEN: Final[list[dict[str, Any]]] = [
    {**cursor("firstBatch", SINGLE_RESULT, namespace=BULK), "nErrors": 0, "nInserted": 0, "nUpserted": 1},
    {
        **cursor("firstBatch", {"ok": 0, "idx": 1, "code": 2, "errmsg": "no"}, namespace=BULK),
        "nErrors": 1,
        "nMatched": 1,
        "nModified": 1,
        "nDeleted": 1,
        "writeConcernError": CONCERN,
    },
]


def bulk_written(client: Any) -> Awaitable[Any]:
    models = [UpdateOne({}, {"$set": {"a": 1}}, upsert=True, namespace="db.coll"), InsertOne({}, "db.other")]
    written: Awaitable[Any] = client.bulk_write(models, verbose_results=True)
    return written


MANY: Final = {str(number): 1 for number in range(MANY_FIELDS + 1)}
CASES: Final[dict[str, Case]] = {
    "find": Case("find", lambda c: iterate(c.db.coll.find()), [cursor("firstBatch", {"_id": 1}), OPEN]),
    "find, exhaust": Case(
        "find",
        lambda c: iterate(c.db.coll.find(cursor_type=CursorType.EXHAUST)),
        [cursor("firstBatch", {"_id": 1}), OPEN],
    ),
    "find_raw_batches": Case(
        "find", lambda c: iterate(c.db.coll.find_raw_batches()), [cursor("firstBatch", {"_id": 1})]
    ),
    "find_one_sorted": Case(
        "find", lambda c: c.db.coll.find_one({}, sort=[("a", 1)]), [cursor("firstBatch", {"_id": 1})]
    ),
    "find_one": Case("find", lambda c: c.db.coll.find_one(), [cursor("firstBatch", {"_id": 1})]),
    "getMore": Case(
        "getMore",
        lambda c: iterate(c.db.coll.find()),
        [MORE, cursor("nextBatch", cursor_id=7)],
        {"find": OPEN},
    ),
    "killCursors": Case("killCursors", half_read, [{"cursorsKilled": [7]}], {"find": OPEN}),
    "killCursors, dropped": Case("killCursors", dropped, [{"cursorsKilled": [7]}], {"find": OPEN}),
    "aggregate": Case("aggregate", lambda c: iterate(c.db.coll.aggregate([])), [cursor("firstBatch")]),
    "aggregate, $out": Case(
        "aggregate",
        lambda c: iterate(c.db.coll.aggregate([{"$out": "other"}])),
        [cursor("firstBatch"), {**cursor("firstBatch"), "writeConcernError": CONCERN, "errorLabels": ["a"]}],
    ),
    "watch": Case("aggregate", watch, [WATCHED], {"getMore": CHANGED}),
    "watch, more": Case("getMore", watch, [CHANGED], {"aggregate": WATCHED}),
    "explain": Case("explain", lambda c: c.db.coll.find().explain(), [{"queryPlanner": {}}]),
    "count_documents": Case("aggregate", lambda c: c.db.coll.count_documents({}), [COUNTED]),
    "estimated_document_count": Case("count", lambda c: c.db.coll.estimated_document_count(), [{"n": 3}]),
    "distinct": Case("distinct", lambda c: c.db.coll.distinct("a"), [{"values": [1, {"a": 1}]}]),
    "list_indexes": Case("listIndexes", lambda c: iterate(c.db.coll.list_indexes()), [cursor("firstBatch")]),
    "index_information": Case("listIndexes", lambda c: c.db.coll.index_information(), [cursor("firstBatch", INDEX)]),
    "options": Case("listCollections", lambda c: c.db.coll.options(), [cursor("firstBatch", COLLECTION, cursor_id=0)]),
    "options, cursor": Case(
        "listCollections", lambda c: c.db.coll.options(), [cursor("firstBatch", COLLECTION, cursor_id=7)]
    ),
    "list_collection_names": Case(
        "listCollections", lambda c: c.db.list_collection_names(), [cursor("firstBatch", COLLECTION)]
    ),
    "list_collections, more": Case(
        "getMore",
        lambda c: c.db.list_collection_names(),
        [cursor("nextBatch", COLLECTION)],
        {"listCollections": cursor("firstBatch", COLLECTION, cursor_id=7)},
    ),
    "list_search_indexes": Case(
        "aggregate", lambda c: iterate(c.db.coll.list_search_indexes()), [cursor("firstBatch", {"name": "a"})]
    ),
    "list_database_names": Case(
        "listDatabases",
        lambda c: c.list_database_names(),
        [{"databases": [{"name": "db", "sizeOnDisk": 1, "empty": False}], "totalSize": 1}],
    ),
    "insert_one": Case("insert", lambda c: c.db.coll.insert_one({}), written()),
    "insert_one, many fields": Case("insert", lambda c: c.db.coll.insert_one(dict(MANY)), written()),
    "insert_one_with_comment": Case("insert", lambda c: c.db.coll.insert_one({}, comment=1), written()),
    "insert_many": Case("insert", lambda c: c.db.coll.insert_many([{}, {}], ordered=False), LIKEWISE),
    "update_one": Case("update", lambda c: c.db.coll.update_one({}, {"$set": {"a": 1}}, upsert=True), UPDATED),
    "replace_one": Case("update", lambda c: c.db.coll.replace_one({}, {"a": 1}), LIKEWISE[:1]),
    "update_one_with_comment": Case(
        "update", lambda c: c.db.coll.update_one({}, {"$set": {"a": 1}}, comment=1), LIKEWISE[:1]
    ),
    "update_many": Case("update", lambda c: c.db.coll.update_many({}, {"$set": {"a": 1}}), LIKEWISE[:1]),
    "delete_one": Case("delete", lambda c: c.db.coll.delete_one({}), LIKEWISE),
    "delete_one_with_comment": Case("delete", lambda c: c.db.coll.delete_one({}, comment=1), LIKEWISE),
    "delete_many": Case("delete", lambda c: c.db.coll.delete_many({}), LIKEWISE[:1]),
    "bulk insert": Case("insert", lambda c: c.db.coll.bulk_write([InsertOne({}), InsertOne({})]), LIKEWISE),
    "bulk update": Case(
        "update",
        lambda c: c.db.coll.bulk_write([UpdateOne({}, {"$set": {"a": 1}}), InsertOne({})], ordered=False),
        UPDATED,
    ),
    "bulk delete": Case("delete", lambda c: c.db.coll.bulk_write([DeleteOne({}), DeleteOne({})]), LIKEWISE),
    "client bulk write": Case("bulkWrite", bulk_written, BULK_WRITTEN),
    "client bulk write, more": Case(
        "getMore",
        bulk_written,
        [cursor("nextBatch", SINGLE_RESULT, namespace=BULK)],
        {"bulkWrite": {**BULK_WRITTEN[0], **cursor("firstBatch", cursor_id=7, namespace=BULK)}},
    ),
    "find_one_and_update": Case(
        "findAndModify",
        lambda c: c.db.coll.find_one_and_update({}, {"$set": {"a": 1}}),
        [{"lastErrorObject": {"n": 1}, "value": {"_id": 1}}, *LIKEWISE[1:]],
    ),
    "create_index": Case("createIndexes", lambda c: c.db.coll.create_indexes([IndexModel("a")]), ADMINISTERED),
    "drop_index": Case("dropIndexes", lambda c: c.db.coll.drop_index("a_1"), [OK]),
    "create_search_index": Case(
        "createSearchIndexes",
        lambda c: c.db.coll.create_search_index(SearchIndexModel({})),
        [{"indexesCreated": [{"id": "1", "name": "a"}]}],
    ),
    "update_search_index": Case("updateSearchIndex", lambda c: c.db.coll.update_search_index("a", {}), [OK]),
    "drop_search_index": Case("dropSearchIndex", lambda c: c.db.coll.drop_search_index("a"), [OK]),
    "create_collection": Case("create", lambda c: c.db.create_collection("coll", check_exists=False), [OK]),
    "create_collection, if it exists": Case(
        "listCollections",
        lambda c: c.db.create_collection("coll"),
        [cursor("firstBatch"), cursor("firstBatch", COLLECTION, cursor_id=7)],
    ),
    "drop": Case("drop", lambda c: c.db.drop_collection("coll"), [{"nIndexesWas": 1, "ns": "db.coll"}, *ADMINISTERED]),
    "drop_database": Case("dropDatabase", lambda c: c.drop_database("db"), [OK]),
    "rename": Case("renameCollection", lambda c: c.db.coll.rename("other"), ADMINISTERED),
    "commit_transaction": Case("commitTransaction", lambda c: in_transaction(c, "commit_transaction"), ADMINISTERED),
    "abort_transaction": Case("abortTransaction", lambda c: in_transaction(c, "abort_transaction"), [OK]),
    "command": Case("ping", lambda c: c.db.command("ping", check=False), [OK, *ADMINISTERED]),
    "command, allowed errors": Case("ping", lambda c: c.db.command("ping", allowable_errors=[1, "a"]), [OK]),
    "cursor_command": Case(
        "find", lambda c: iterate(c.db.cursor_command("find", "coll")), [cursor("firstBatch", {"_id": 1})]
    ),
    "validate_collection": Case(
        "validate", lambda c: c.db.validate_collection("coll"), [{"valid": True, "raw": {"shard": {"valid": True}}}]
    ),
    "server_info": Case("buildInfo", lambda c: c.server_info(), [{"version": "8.0.0"}]),
}


async def outcome(case: Case, client: Any) -> object:
    try:
        return await case.call(client)
    except PyMongoError as error:
        error.__traceback__ = None
        return error
