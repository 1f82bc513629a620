"""What a strategy may decide about: which operations count as reads, and what happens at each stage of a failure."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest

import motorlite
from motorlite import DeleteMany, InsertOne, ReadPreference, UpdateMany
from motorlite.errors import AutoReconnect, NotPrimaryError, OperationFailure, PyMongoError
from motorlite.monitoring import RetryEvent
from motorlite.retry import BestEffort, RetryAction, RetryReason, RetryRefusal, RetryRequest
from motorlite.testing.scripted import Close, ScriptedDeployment, failure
from tests.support.clients import scripted_client
from tests.support.core import FOUND, HOST_UNREACHABLE, OVERLOADED, RETRYABLE_ONLY, answering, replica_set
from tests.support.events import Recorder
from tests.support.strategies import Strategy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite.testing.scripted import Answer

pytestmark = pytest.mark.anyio

EMPTY: Final = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}
SEARCH: Final[list[Any]] = [{"$search": {"text": {"query": "bolt", "path": "name"}}}]
VECTORS: Final[list[Any]] = [{"$vectorSearch": {"index": "v", "path": "v", "queryVector": [1.0], "limit": 1}}]


# --- reads, whatever they read ---

READS: Final[dict[str, tuple[str, str, Callable[[Any], Awaitable[Any]]]]] = {
    "from a secondary": (
        "b:1",
        "find",
        lambda c: c.with_options(read_preference=ReadPreference.SECONDARY).find_one(),
    ),
    "a part of a document": ("a:1", "find", lambda c: c.find_one(7, {"stock": 1, "sizes": {"$slice": 2}})),
    "a search": ("a:1", "aggregate", lambda c: c.aggregate(SEARCH).to_list()),
    "a search by vectors": ("a:1", "aggregate", lambda c: c.aggregate(VECTORS).to_list()),
    "the search indexes": ("a:1", "aggregate", lambda c: c.list_search_indexes().to_list()),
    # A view is read by its name, with the commands of a collection.
    "a view": ("a:1", "find", lambda c: c.database.view.find().to_list()),
    "an aggregation of a view": ("a:1", "aggregate", lambda c: c.database.view.aggregate([]).to_list()),
}


@pytest.mark.parametrize("name", READS)
async def test_reads_of_every_kind_are_idempotent(name: str) -> None:
    """They are sent again although an earlier attempt may have reached the server."""
    address, command, read = READS[name]
    strategy = Strategy(0.0)
    deployment = replica_set(servers=2)
    deployment[address].on(command, Close(), Close(), EMPTY)
    async with scripted_client(deployment, retry_strategy=strategy) as client:
        await read(client.db.coll)
    assert len(deployment[address].commands(command)) == 3
    # The specification made the first retry.
    ((request, reason),) = strategy.asked
    assert (request.idempotent, reason) == (True, RetryReason.CONNECTION_LOST_IN_FLIGHT)


# --- in flight: what is not idempotent must fail ---

OTHERS: Final[dict[str, tuple[str, Callable[[Any], Awaitable[Any]]]]] = {
    "the next batch": ("getMore", lambda c: c.find().to_list()),
    "update_many": ("update", lambda c: c.update_many({}, {"$inc": {"n": 1}})),
    "delete_many": ("delete", lambda c: c.delete_many({})),
    "bulk_write with an update of many": ("update", lambda c: c.bulk_write([UpdateMany({}, {"$inc": {"n": 1}})])),
    "bulk_write with a delete of many": ("delete", lambda c: c.bulk_write([DeleteMany({})])),
    "bulk_write of a client with an update of many": (
        "bulkWrite",
        lambda c: c.database.client.bulk_write([UpdateMany({}, {"$inc": {"n": 1}}, namespace="db.coll")]),
    ),
    "aggregate with $out": ("aggregate", lambda c: c.aggregate([{"$out": "copy"}]).to_list()),
    "aggregate with $merge": ("aggregate", lambda c: c.aggregate([{"$merge": "copy"}]).to_list()),
    "a command": ("ping", lambda c: c.database.command("ping")),
    "a read as a command": ("find", lambda c: c.database.command({"find": "coll"})),
    "create_collection": ("create", lambda c: c.database.create_collection("made", check_exists=False)),
    "create_index": ("createIndexes", lambda c: c.create_index("x")),
    "drop_index": ("dropIndexes", lambda c: c.drop_index("x_1")),
    "rename": ("renameCollection", lambda c: c.rename("other")),
    "drop": ("drop", lambda c: c.drop()),
    "drop_database": ("dropDatabase", lambda c: c.database.client.drop_database("db")),
    "create_search_index": ("createSearchIndexes", lambda c: c.create_search_index({"definition": {}})),
}
# A standalone server keeps no transaction numbers, so it would not recognise a write.
STANDALONE: Final[dict[str, tuple[str, Callable[[Any], Awaitable[Any]]]]] = {
    "insert_one": ("insert", lambda c: c.insert_one({})),
    "insert_many": ("insert", lambda c: c.insert_many([{}])),
    "update_one": ("update", lambda c: c.update_one({}, {"$inc": {"n": 1}})),
    "replace_one": ("update", lambda c: c.replace_one({}, {"n": 1})),
    "delete_one": ("delete", lambda c: c.delete_one({})),
    "find_one_and_update": ("findAndModify", lambda c: c.find_one_and_update({}, {"$inc": {"n": 1}})),
    "bulk_write": ("insert", lambda c: c.bulk_write([InsertOne({})])),
}


@pytest.mark.parametrize(
    ("command", "call", "topology"),
    [(*row, {"replica_set": "rs"}) for row in OTHERS.values()] + [(*row, {}) for row in STANDALONE.values()],
    ids=[*OTHERS, *(f"{name} on a standalone" for name in STANDALONE)],
)
async def test_in_flight_what_is_not_idempotent_fails(
    command: str, call: Callable[[Any], Awaitable[Any]], topology: dict[str, Any]
) -> None:
    strategy = Strategy(0.0)
    deployment = ScriptedDeployment(["a:1"], wire_version=25, **topology)
    deployment["a:1"].on("find", {"cursor": {"id": 9, "ns": "db.coll", "firstBatch": [{}]}})
    deployment["a:1"].on(command, Close(), {"n": 1})
    async with scripted_client(deployment, retry_strategy=strategy) as client:
        with pytest.raises(PyMongoError) as caught:
            await call(client.db.coll)
    error = caught.value
    assert isinstance(getattr(error, "error", error), AutoReconnect)
    assert len(deployment["a:1"].commands(command)) == 1
    assert strategy.asked == []


# --- with the reply: the server has changed nothing ---


@pytest.mark.parametrize(
    ("answer", "reason"), [(OVERLOADED, RetryReason.OVERLOAD), (RETRYABLE_ONLY, RetryReason.RETRYABLE_ERROR)]
)
@pytest.mark.parametrize(("action", "attempts"), [(0.2, 3), (RetryAction.no_retry(), 1)])
async def test_what_changed_nothing_may_be_retried_by_any_operation_if_the_strategy_wants(
    answer: Answer, reason: RetryReason, action: Any, attempts: int
) -> None:
    strategy = Strategy(action)
    deployment = answering("update", answer, answer, {"n": 1, "nModified": 1})
    async with scripted_client(deployment, retry_strategy=strategy, maxAdaptiveRetries=0) as client:
        with pytest.raises(OperationFailure) if attempts == 1 else nullcontext():
            result = await client.db.coll.update_many({}, {"$inc": {"n": 1}})
            assert result.modified_count == 1
    assert len(deployment["a:1"].commands("update")) == attempts
    assert {*strategy.reasons} == {reason}
    assert not any(request.idempotent for request, _ in strategy.asked)


# --- no duration: no retry ---


FAILURES: Final[dict[str, tuple[Answer, RetryReason, type[PyMongoError]]]] = {
    "overload": (OVERLOADED, RetryReason.OVERLOAD, OperationFailure),
    "a temporary failure": (HOST_UNREACHABLE, RetryReason.TEMPORARY_FAILURE, OperationFailure),
    "a failover": (failure(11600), RetryReason.FAILOVER, NotPrimaryError),
    "in flight": (Close(), RetryReason.CONNECTION_LOST_IN_FLIGHT, AutoReconnect),
}


@pytest.mark.parametrize("action", [RetryAction.no_retry(), type("Extended", (RetryAction,), {})(None)])
@pytest.mark.parametrize("name", FAILURES)
async def test_no_duration_fails_the_operation(name: str, action: RetryAction) -> None:
    """With its own error, without another attempt; the refusal is published with its reason."""
    answer, reason, kind = FAILURES[name]
    strategy, recorder = Strategy(action), Recorder(RetryEvent)
    deployment = answering("find", answer)
    options: dict[str, Any] = {"maxAdaptiveRetries": 0, "event_listeners": [recorder]}
    async with scripted_client(deployment, retry_strategy=strategy, **options) as client:
        with pytest.raises(kind) as caught:
            await client.db.coll.find_one()
        await anyio.sleep(60)
        assert client.stats().failures == 1
    attempts = len(deployment["a:1"].commands("find"))
    # Only what the retryable reads specification retries has a retry before that.
    assert attempts == caught.value.attempts == (1 if reason is RetryReason.OVERLOAD else 2)
    assert strategy.reasons == [reason]
    event = recorder.events[-1]
    assert isinstance(event, RetryEvent)
    assert (event.reason, event.refusal is None) == (reason, False)
    assert event.refusal in (RetryRefusal.ATTEMPTS, RetryRefusal.NOT_RETRYABLE)


# --- the veto of a strategy that decides ---


class PeopleFirst(BestEffort):
    """The RFC's example: nothing is retried for robots, and everything that is safe for people."""

    scope = "decides"

    async def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
        if request.context.get("isRobotRequest"):
            return RetryAction.no_retry()
        return await super().retry_after(request, reason)


@pytest.mark.parametrize("answer", [OVERLOADED, RETRYABLE_ONLY, HOST_UNREACHABLE, failure(11602), Close()])
@pytest.mark.parametrize("options", [{}, {"timeoutMS": 60_000}])
async def test_a_robot_is_not_retried_at_all_and_a_person_until_it_succeeds(
    answer: Answer, options: dict[str, Any]
) -> None:
    """Where the data of the call says so, other calls of the same client are as they were."""
    deployment = replica_set()
    async with scripted_client(deployment, retry_strategy=PeopleFirst(), **options) as client:
        for name, is_robot, attempts in (("find", True, 1), ("find", False, 9), ("insert", True, 1)):
            deployment["a:1"].received.clear()
            deployment["a:1"].on(name, *[answer] * 8, FOUND)
            call = client.db.coll.find_one if name == "find" else lambda: client.db.coll.insert_one({})
            with motorlite.call_options(context={"isRobotRequest": is_robot}):
                if is_robot:
                    with pytest.raises(PyMongoError) as caught:
                        await call()
                    assert caught.value.attempts == 1
                else:
                    assert await call() == {"_id": 1}
            assert len(deployment["a:1"].commands(name)) == attempts
