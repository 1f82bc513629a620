"""Events of operations: a start and an end for each call of the public API, whatever happens to it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import InsertOne, UpdateOne, monitoring
from motorlite.errors import OperationFailure
from motorlite.testing.scripted import Reply, ScriptedDeployment, failure, overloaded
from tests.support.clients import scripted_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite import AsyncMongoClient

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FOUND: dict[str, Any] = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}


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


async def test_an_operation_begins_and_ends() -> None:
    async with make() as (client, seen):
        await client.db.coll.find_one()
        assert seen.take() == ["begin find db.coll", "find", "end find db.coll"]
        assert seen.events[-1].operation_id == seen.events[-2].operation_id


async def test_names_are_those_of_the_operations() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("listCollections", {"cursor": {"id": 0, "ns": "db.x", "firstBatch": []}})
    deployment["a:1"].on("count", {"n": 1})
    async with make(deployment) as (client, seen):
        await client.db.command("ping")
        await client.db.create_collection("coll")
        await client.db.coll.estimated_document_count()
        await client.db.coll.drop()
        names = [word for word in seen.take() if word.startswith("begin")]
    assert names == [
        "begin runCommand db.None",
        "begin listCollections db.None",
        "begin createCollection db.coll",
        "begin count db.coll",
        "begin dropCollection db.coll",
    ]


async def test_each_further_batch_is_an_operation() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("find", {"cursor": {"id": 5, "ns": "db.coll", "firstBatch": [{}]}})
    deployment["a:1"].on("getMore", {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": [{}]}})
    async with make(deployment) as (client, seen):
        assert len(await client.db.coll.find().to_list()) == 2
        assert seen.take() == [
            "begin find db.coll",
            "find",
            "end find db.coll",
            "begin getMore db.coll",
            "getMore",
            "end getMore db.coll",
        ]


async def test_a_bulk_write_is_one_operation() -> None:
    async with make() as (client, seen):
        await client.db.coll.bulk_write([InsertOne({}), UpdateOne({}, {"$set": {"x": 1}})])
        assert seen.take() == ["begin bulkWrite db.coll", "insert", "update", "end bulkWrite db.coll"]
        await client.db.coll.insert_many([{}, {}])
        assert seen.take() == ["begin insert db.coll", "insert", "end insert db.coll"]


async def test_a_bulk_write_that_fails() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("insert", failure(2))
    async with make(deployment) as (client, seen):
        with pytest.raises(OperationFailure):
            await client.db.coll.insert_many([{}, {}])
        assert seen.take() == ["begin insert db.coll", "insert", "failed (OperationFailure) insert db.coll"]


async def test_all_attempts_are_one_operation() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("find", overloaded(), overloaded(), FOUND)
    async with make(deployment) as (client, seen):
        await client.db.coll.find_one()
        assert seen.take() == ["begin find db.coll", *["find"] * 3, "end find db.coll"]
        ended = seen.events[-1]
        assert isinstance(ended, monitoring.OperationSucceededEvent)
        assert ended.duration > 0


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


async def test_a_reply_that_cannot_be_used_ends_it_too() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("find", {"cursor": 5}, {"cursor": 5})
    async with make(deployment) as (client, seen):
        for call in (client.db.coll.find_one(), client.db.coll.find().to_list()):
            with pytest.raises(Exception, match="cursor"):
                await call
            assert seen.take()[-1] == "failed (ProtocolError) find db.coll"


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
