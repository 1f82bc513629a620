"""Events of operations: a start and an end for each call of the public API, whatever happens to it."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import InsertOne, UpdateOne, monitoring
from motorlite.errors import OperationFailure, PyMongoError
from motorlite.testing.scripted import Reply, ScriptedDeployment, failure, overloaded
from tests.support.clients import scripted_client
from tests.support.core import FOUND

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from motorlite import AsyncMongoClient

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Operations(monitoring.OperationListener, monitoring.CommandListener):
    """The events of operations and commands, as words, and the ids of the operations that did not end."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.open: set[int] = set()
        self.events: list[monitoring.OperationEvent] = []

    def _add(self, word: str, event: monitoring.OperationEvent) -> None:
        self.words.append(f"{word} {event.operation_name} {event.database_name}.{event.collection_name}")
        self.events.append(event)

    def operation_started(self, event: monitoring.OperationStartedEvent) -> None:
        assert event.operation_id not in self.open
        self.open.add(event.operation_id)
        self._add("begin", event)

    def operation_succeeded(self, event: monitoring.OperationSucceededEvent) -> None:
        self.open.remove(event.operation_id)
        self._add("end", event)

    def operation_failed(self, event: monitoring.OperationFailedEvent) -> None:
        self.open.remove(event.operation_id)
        self._add(f"failed ({type(event.failure).__name__})", event)

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        assert event.operation_id in self.open
        self.words.append(event.command_name)

    def take(self) -> list[str]:
        found, self.words = self.words, []
        return found


@asynccontextmanager
async def make(deployment: ScriptedDeployment | None = None) -> AsyncIterator[tuple[AsyncMongoClient[Any], Operations]]:
    listener = Operations()
    async with scripted_client(deployment or ScriptedDeployment(["a:1"]), event_listeners=[listener]) as client:
        yield client, listener


BATCH: dict[str, Any] = {"cursor": {"id": 5, "ns": "db.coll", "firstBatch": [{}]}}
LAST_BATCH: dict[str, Any] = {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": [{}]}}
BULK = [InsertOne({}), UpdateOne({}, {"$set": {"x": 1}})]


def words(name: str, *commands: str, end: str = "end") -> list[str]:
    """What one operation says."""
    return [f"begin {name}", *commands, f"{end} {name}"]


FIND = words("find db.coll", "find")


@pytest.mark.parametrize(
    ("answers", "call", "expected"),
    [
        ({}, lambda coll: coll.find_one(), FIND),
        # Each further batch is an operation.
        (
            {"find": [BATCH], "getMore": [LAST_BATCH]},
            lambda coll: coll.find().to_list(),
            [*FIND, *words("getMore db.coll", "getMore")],
        ),
        # A bulk write is one operation, and so are all attempts.
        ({}, lambda coll: coll.bulk_write(BULK), words("bulkWrite db.coll", "insert", "update")),
        ({}, lambda coll: coll.insert_many([{}, {}]), words("insert db.coll", "insert")),
        (
            {"find": [overloaded(), overloaded(), FOUND]},
            lambda coll: coll.find_one(),
            words("find db.coll", *["find"] * 3),
        ),
        (
            {"insert": [failure(2)]},
            lambda coll: coll.insert_many([{}, {}]),
            words("insert db.coll", "insert", end="failed (OperationFailure)"),
        ),
        # A reply that cannot be used ends it too.
        *(
            ({"find": [{"cursor": 5}]}, call, words("find db.coll", "find", end="failed (ProtocolError)"))
            for call in (lambda coll: coll.find_one(), lambda coll: coll.find().to_list())
        ),
        # Names are those of the operations.
        ({}, lambda coll: coll.database.command("ping"), words("runCommand db.None", "ping")),
        (
            {"listCollections": [{"cursor": {"id": 0, "ns": "db.x", "firstBatch": []}}]},
            lambda coll: coll.database.create_collection("coll"),
            [*words("listCollections db.None", "listCollections"), *words("createCollection db.coll", "create")],
        ),
        ({"count": [{"n": 1}]}, lambda coll: coll.estimated_document_count(), words("count db.coll", "count")),
        ({}, lambda coll: coll.drop(), words("dropCollection db.coll", "drop")),
        # A missing collection is no error.
        ({"drop": [failure(26)]}, lambda coll: coll.drop(), words("dropCollection db.coll", "drop")),
        ({"dropIndexes": [failure(26)]}, lambda coll: coll.drop_indexes(), words("dropIndexes db.coll", "dropIndexes")),
        *(
            ({"listIndexes": [failure(26)]}, call, words("listIndexes db.coll", "listIndexes"))
            for call in (lambda coll: coll.list_indexes().to_list(), lambda coll: coll.index_information())
        ),
        (
            {"listIndexes": [failure(2)]},
            lambda coll: coll.list_indexes().to_list(),
            words("listIndexes db.coll", "listIndexes", end="failed (OperationFailure)"),
        ),
        (
            {"drop": [failure(2)]},
            lambda coll: coll.drop(),
            words("dropCollection db.coll", "drop", end="failed (OperationFailure)"),
        ),
    ],
)
async def test_an_operation_begins_and_ends(
    answers: dict[str, list[Any]], call: Callable[[Any], Awaitable[Any]], expected: list[str]
) -> None:
    deployment = ScriptedDeployment(["a:1"])
    for name, replies in answers.items():
        deployment["a:1"].on(name, *replies)
    async with make(deployment) as (client, seen):
        with pytest.raises(PyMongoError) if "failed" in expected[-1] else nullcontext():
            await call(client.db.coll)
        assert seen.take() == expected
        assert seen.events[-1].operation_id == seen.events[-2].operation_id
        ended = seen.events[-1]
        assert not isinstance(ended, monitoring.OperationSucceededEvent) or ended.duration >= 0


async def test_failures_are_counted() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("find", failure(2), FOUND)
    async with make(deployment) as (client, seen):
        with pytest.raises(OperationFailure):
            await client.db.coll.find_one()
        assert seen.take()[-1] == "failed (OperationFailure) find db.coll"
        await client.db.coll.find_one()
        stats = client.stats()
    assert stats.failures == 1
    assert stats.servers["a", 1].attempts == 2
    assert stats.servers["a", 1].operations == 0


@pytest.mark.parametrize(
    ("name", "call"),
    [("drop", lambda coll: coll.drop()), ("listIndexes", lambda coll: coll.list_indexes().to_list())],
    ids=["drop", "listIndexes"],
)
async def test_a_missing_collection_counts_as_no_failure(name: str, call: Callable[[Any], Awaitable[Any]]) -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on(name, failure(26), failure(2))
    async with make(deployment) as (client, _):
        await call(client.db.coll)
        assert client.stats().failures == 0
        with pytest.raises(OperationFailure):
            await call(client.db.coll)
        assert client.stats().failures == 1


async def test_a_cancelled_operation_ends() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("find", Reply({"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}, 5))
    async with make(deployment) as (client, seen):
        with anyio.move_on_after(1):
            await client.db.coll.find_one()
        kind = type(seen.events[-1].failure).__name__ if hasattr(seen.events[-1], "failure") else None
        assert kind in {"CancelledError", "Cancelled"}
        assert seen.take() == ["begin find db.coll", "find", f"failed ({kind}) find db.coll"]
    assert seen.open == set()


# --- transactions: operations that others are part of ---


def nesting(seen: Operations) -> list[str]:
    """Each operation that began, with the one that it is part of."""
    names: dict[int | None, str] = {None: ""}
    found = []
    for event in seen.events:
        if isinstance(event, monitoring.OperationStartedEvent):
            names[event.operation_id] = event.operation_name
            found.append(f"{names[event.parent_id]} > {event.operation_name}")
    return found


async def test_a_transaction_is_an_operation() -> None:
    async with make(ScriptedDeployment(["a:1"], replica_set="rs")) as (client, seen), client.start_session() as session:
        session.start_transaction()
        assert seen.take() == [], "it begins with its first operation"
        await client.db.coll.insert_one({}, session=session)
        await client.db.coll.bulk_write([InsertOne({})], session=session)
        await client.db.coll.find_one()
        await session.commit_transaction()
        await client.db.coll.find_one(session=session)
        assert nesting(seen) == [
            " > transaction",
            "transaction > insert",
            "transaction > bulkWrite",
            " > find",
            "transaction > commitTransaction",
            " > find",
        ]
        words = seen.take()
        assert words.index("end transaction admin.None") == words.index("end commitTransaction admin.None") + 1
        assert seen.open == set()


async def test_the_ends_of_transactions() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("commitTransaction", failure(2))
    async with make(deployment) as (client, seen):
        session = client.start_session()
        session.start_transaction()
        await client.db.coll.insert_one({}, session=session)
        with pytest.raises(OperationFailure):
            await session.commit_transaction()
        assert seen.take()[-1] == "failed (OperationFailure) transaction admin.None"
        session.start_transaction()
        await client.db.coll.insert_one({}, session=session)
        await session.abort_transaction()
        assert seen.take()[-1] == "end transaction admin.None"
        session.start_transaction()
        await client.db.coll.insert_one({}, session=session)
        await session.end_session()
        assert seen.take()[-1] == "end transaction admin.None"
        assert seen.open == set()
        assert client.stats().failures == 1


async def test_with_transaction_is_an_operation() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    again = failure(251, "TransientTransactionError")
    deployment["a:1"].on("insert", again, {"ok": 1, "n": 1})
    async with make(deployment) as (client, seen), client.start_session() as session:
        await session.with_transaction(lambda session: client.db.coll.insert_one({}, session=session))
        assert nesting(seen) == [
            " > withTransaction",
            "withTransaction > transaction",
            "transaction > insert",
            "transaction > abortTransaction",
            "withTransaction > transaction",
            "transaction > insert",
            "transaction > commitTransaction",
        ]
        assert seen.take()[-1] == "end withTransaction admin.None"

        async def fail(_: object) -> None:
            raise LookupError

        with pytest.raises(LookupError):
            await session.with_transaction(fail)
        assert seen.take() == ["begin withTransaction admin.None", "failed (LookupError) withTransaction admin.None"]
        assert seen.open == set()


async def test_a_cancelled_commit_ends_its_transaction() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("commitTransaction", Reply({"ok": 1}, 5))
    async with make(deployment) as (client, seen), client.start_session() as session:
        session.start_transaction()
        await client.db.coll.insert_one({}, session=session)
        with anyio.move_on_after(1):
            await session.commit_transaction()
        assert seen.take()[-1].endswith("transaction admin.None")
        assert seen.open == set()


@pytest.mark.parametrize("is_sent", [True, False])
async def test_a_transaction_ends_with_its_dropped_session(is_sent: bool) -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    async with make(deployment) as (client, seen):
        await client.db.coll.insert_one({})
        session = client.start_session()
        session.start_transaction()
        if is_sent:
            await client.db.coll.insert_one({}, session=session)
        else:
            with pytest.raises(OverflowError):
                await client.db.coll.insert_one({"x": 2**64}, session=session)
        del session
        await anyio.sleep(1)
        assert "end transaction admin.None" in seen.take()
        assert seen.open == set()


async def test_a_transaction_ends_with_its_block_when_the_client_is_closed() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    async with make(deployment) as (client, seen):
        session = client.start_session()
        async with session.start_transaction():
            await client.db.coll.insert_one({}, session=session)
            await client.close()
        assert seen.open == set()
