"""Operations that may have been executed although they failed: what their errors say, and what is not repeated."""

from __future__ import annotations

import copy
import pickle
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import WriteConcern
from motorlite.errors import (
    AutoReconnect,
    BulkWriteError,
    CircuitBreakerOpenError,
    ClientBulkWriteException,
    ConnectionFailure,
    DocumentTooLarge,
    ExecutionTimeout,
    InvalidOperation,
    OperationFailure,
    ProtocolError,
    PyMongoError,
    RetryStrategyError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WriteConcernError,
    WriteError,
    detached,
)
from motorlite.operations import DeleteMany, DeleteOne, InsertOne, UpdateMany, UpdateOne
from motorlite.overload import CircuitBreaker
from motorlite.retry import BestEffort
from motorlite.testing.scripted import Close, Hang, Reply, failure, overloaded
from tests.support.bulk_write_server import V8_0, BulkWriteServer
from tests.support.clients import scripted_client
from tests.support.core import HOST_UNREACHABLE, OVERLOADED, OVERLOADED_ONLY
from tests.support.strategies import Strategy
from tests.support.transactions import REJECTED, names, replica_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from motorlite import AsyncClientSession
    from motorlite.testing.scripted import Answer, ScriptedDeployment, ScriptedServer
    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

UNKNOWN, TRANSIENT = "UnknownTransactionCommitResult", "TransientTransactionError"
# A refusal in each of its forms.
REFUSED = failure(462, "SystemOverloadedError", "RetryableError", "NoWritesPerformed")
LOST = Close()
UNAUTHORIZED = failure(13)
REFUSALS = [OVERLOADED, REFUSED, OVERLOADED_ONLY, UNAUTHORIZED]
UNKNOWNS = [LOST, HOST_UNREACHABLE]


class Subject:
    """A client in whose session a transaction was begun on a replica set of one member."""

    def __init__(self, deployment: ScriptedDeployment, client: Client, session: AsyncClientSession[Any]) -> None:
        self.deployment = deployment
        self.server: ScriptedServer = deployment["a:1"]
        self.client = client
        self.session = session
        # How often `transfer` was called.
        self.calls = 0

    async def begin(self) -> None:
        self.session.start_transaction()
        await self.client.db.coll.insert_one({}, session=self.session)

    async def transfer(self, session: AsyncClientSession[Any]) -> str:
        self.calls += 1
        await self.client.db.coll.insert_one({}, session=session)
        return "done"

    async def commit_fails(self, **options: Any) -> PyMongoError:
        with pytest.raises(PyMongoError) as raised:
            await self.session.commit_transaction(**options)
        return raised.value

    def count(self, name: str) -> int:
        return len(self.server.commands(name))


@asynccontextmanager
async def subject(**options: Any) -> AsyncIterator[Subject]:
    deployment = replica_set()
    async with scripted_client(deployment, **options) as client, client.start_session() as session:
        yield Subject(deployment, client, session)


# --- commits ---


@pytest.mark.parametrize(
    ("options", "answers", "limit", "kind"),
    [
        *(({}, [unknown, refusal], None, PyMongoError) for unknown in UNKNOWNS for refusal in REFUSALS),
        # An overloaded server settles nothing.
        ({}, [LOST, overloaded(errorLabels=[TRANSIENT, "SystemOverloadedError"])], None, OperationFailure),
        # Its time limit, and its strategy, which fails.
        ({}, [LOST, OVERLOADED], 50, PyMongoError),
        ({"retry_strategy": Strategy(ZeroDivisionError())}, [LOST, OVERLOADED], None, RetryStrategyError),
    ],
)
async def test_a_refusal_after_a_lost_reply_leaves_a_commit_unknown(
    options: dict[str, Any], answers: list[Answer], limit: int | None, kind: type[PyMongoError]
) -> None:
    async with subject(**options) as it:
        await it.begin()
        it.server.on("commitTransaction", *answers)
        for _ in range(3):
            error = await it.commit_fails(timeoutMS=limit)
            assert isinstance(error, kind)
            assert error.has_error_label(UNKNOWN)
            assert not error.has_error_label(TRANSIENT)
            assert error.may_have_been_executed
            assert limit is None or error.timeout or error.phase == "backoff"
        it.server.on("commitTransaction", {})
        await it.session.commit_transaction()


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_refused_commit_is_not_unknown(refusal: Answer) -> None:
    async with subject() as it:
        await it.begin()
        it.server.on("commitTransaction", refusal)
        for _ in range(2):
            error = await it.commit_fails()
            assert not error.has_error_label(UNKNOWN)
            assert not error.may_have_been_executed


async def test_a_commit_that_succeeded_stays_so() -> None:
    async with subject() as it:
        await it.begin()
        it.server.on("commitTransaction", {}, OVERLOADED)
        await it.session.commit_transaction()
        error = await it.commit_fails()
        assert error.has_error_label(UNKNOWN)
        assert error.may_have_been_executed


async def test_a_commit_that_was_cancelled_in_flight_is_unknown() -> None:
    async with subject() as it:
        await it.begin()
        it.server.on("commitTransaction", Hang(), OVERLOADED)
        with anyio.move_on_after(1):
            await it.session.commit_transaction()
        assert (await it.commit_fails()).has_error_label(UNKNOWN)


async def test_a_server_that_has_lost_the_transaction_settles_it() -> None:
    """Its label promises that the transaction was not committed: such a reply waits for a majority."""
    async with subject() as it:
        await it.begin()
        it.server.on("commitTransaction", LOST, OVERLOADED, REJECTED)
        error = await it.commit_fails()
        assert error.error_labels == {TRANSIENT}
        assert not error.may_have_been_executed
        await it.begin()
        it.server.on("commitTransaction", OVERLOADED)
        assert not (await it.commit_fails()).has_error_label(UNKNOWN), "of the next transaction"


async def test_the_client_is_closed_during_the_backoff_of_an_unknown_commit() -> None:
    async with subject(jitter=1.0) as it:
        await it.begin()
        it.server.on("commitTransaction", HOST_UNREACHABLE, OVERLOADED)
        errors: list[PyMongoError] = []

        async def commit() -> None:
            errors.append(await it.commit_fails())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(commit)
            await anyio.sleep(0.05)
            await it.client.close()
        (error,) = errors
        assert isinstance(error, InvalidOperation)
        assert error.has_error_label(UNKNOWN)
        assert error.may_have_been_executed


async def test_no_connection_for_an_unknown_commit() -> None:
    async with subject(maxPoolSize=1, waitQueueTimeoutMS=100) as it:
        await it.begin()
        it.server.on("commitTransaction", LOST, OVERLOADED)
        await it.commit_fails()
        it.server.on("find", Reply({"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}, 2.0))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.client.db.coll.find_one)
            await anyio.sleep(0.1)
            error = await it.commit_fails()
        assert isinstance(error, WaitQueueTimeoutError)
        assert error.has_error_label(UNKNOWN)
        assert error.may_have_been_executed


# --- with_transaction ---


@pytest.mark.parametrize(
    ("answers", "limit", "code", "is_unknown", "commits"),
    [
        ([LOST, *[OVERLOADED] * 9, {}], None, None, False, 11),
        ([LOST, *[REFUSED] * 9, {}], None, None, False, 11),
        # Until time runs out.
        ([LOST, OVERLOADED], 3000, 462, True, None),
        ([LOST, REFUSED], 3000, 462, True, None),
        # What the server always refuses is not committed again.
        ([LOST, UNAUTHORIZED], None, 13, True, 2),
        ([OVERLOADED], None, 462, False, 6),
    ],
)
async def test_a_transaction_that_may_be_committed_is_not_executed_again(
    answers: list[Answer], limit: int | None, code: int | None, is_unknown: bool, commits: int | None
) -> None:
    async with subject() as it:
        it.server.on("commitTransaction", *answers)
        if code is None:
            assert await it.session.with_transaction(it.transfer) == "done"
        else:
            with pytest.raises(PyMongoError) as raised:
                await it.session.with_transaction(it.transfer, timeoutMS=limit)
            assert limit is not None or getattr(raised.value, "code", None) == code
            assert raised.value.has_error_label(UNKNOWN) is raised.value.may_have_been_executed is is_unknown
        assert it.calls == it.count("insert") == 1
        assert commits in (None, it.count("commitTransaction"))


# --- writes ---

INC: dict[str, Any] = {"$inc": {"n": 1}}
WRITES: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "insert": lambda client: client.db.coll.insert_one({}),
    "update": lambda client: client.db.coll.update_one({}, INC),
    "delete": lambda client: client.db.coll.delete_one({}),
    "findAndModify": lambda client: client.db.coll.find_one_and_delete({}),
}


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("unknown", [*UNKNOWNS, None])
@pytest.mark.parametrize("name", WRITES)
async def test_a_write_that_may_have_been_executed(name: str, unknown: Answer | None, refusal: Answer) -> None:
    async with subject() as it:
        it.server.on(name, *([refusal] if unknown is None else [unknown, refusal]))
        with pytest.raises(PyMongoError) as raised:
            await WRITES[name](it.client)
        error = raised.value
        assert error.may_have_been_executed is (unknown is not None)
        assert isinstance(error, AutoReconnect) is (unknown is LOST and refusal is REFUSED)
        assert ("may have been executed" in str(error)) is (unknown is not None)


def write_error(index: int = 0, n: int = 0) -> dict[str, Any]:
    return {"n": n, "nModified": n, "writeErrors": [{"index": index, "code": 11000, "errmsg": "x"}]}


@pytest.mark.parametrize(
    ("name", "call", "answers", "options", "kind", "may_be"),
    [
        # What is not retried.
        ("insert", lambda coll: coll.insert_one({}), [LOST], {"retryWrites": False}, AutoReconnect, True),
        ("update", lambda coll: coll.update_many({}, INC), [LOST], {}, AutoReconnect, True),
        ("x", lambda coll: coll.database.command("x"), [LOST], {}, AutoReconnect, True),
        ("x", lambda coll: coll.database.command("x", timeoutMS=1000), [OVERLOADED, Hang()], {}, PyMongoError, True),
        ("find", lambda coll: coll.find_one(), [LOST], {}, AutoReconnect, False),
        # An error of a failing server may interrupt a write, unless a label says that nothing was written.
        ("insert", lambda coll: coll.insert_one({}), [failure(6)], {"retryWrites": False}, OperationFailure, True),
        (
            "insert",
            lambda coll: coll.insert_one({}),
            [failure(6, "NoWritesPerformed")],
            {"retryWrites": False},
            OperationFailure,
            False,
        ),
        # A strategy whose delay is longer than the time limit.
        (
            "insert",
            lambda coll: coll.insert_one({}, timeoutMS=2000),
            [LOST, OVERLOADED],
            {"retry_strategy": Strategy(9.0)},
            ExecutionTimeout | OperationFailure,
            True,
        ),
        # Errors in replies.
        ("update", lambda coll: coll.update_one({}, INC), [{"n": "one"}], {}, ProtocolError, True),
        (
            "insert",
            lambda coll: coll.insert_one({}),
            [{"n": 1, "writeConcernError": {"code": 100, "errmsg": "x"}}],
            {},
            WriteConcernError,
            True,
        ),
        ("insert", lambda coll: coll.insert_one({}), [write_error()], {}, WriteError, False),
        ("insert", lambda coll: coll.insert_many([{}, {}]), [write_error()], {}, BulkWriteError, False),
        ("insert", lambda coll: coll.insert_many([{}, {}]), [write_error(1, 1)], {}, BulkWriteError, True),
        # The server has changed documents before the one with the error, and does not count them.
        ("update", lambda coll: coll.update_one({}, INC), [write_error()], {}, WriteError, False),
        ("update", lambda coll: coll.replace_one({}, {}), [write_error()], {}, WriteError, False),
        ("delete", lambda coll: coll.delete_one({}), [write_error()], {}, WriteError, False),
        ("update", lambda coll: coll.update_many({}, INC), [write_error()], {}, WriteError, True),
        ("delete", lambda coll: coll.delete_many({}), [write_error()], {}, WriteError, True),
        ("update", lambda coll: coll.bulk_write([UpdateMany({}, INC)]), [write_error()], {}, BulkWriteError, True),
        ("delete", lambda coll: coll.bulk_write([DeleteMany({})]), [write_error()], {}, BulkWriteError, True),
        ("update", lambda coll: coll.bulk_write([UpdateOne({}, INC)]), [write_error()], {}, BulkWriteError, False),
        ("delete", lambda coll: coll.bulk_write([DeleteOne({})]), [write_error()], {}, BulkWriteError, False),
        # A pipeline writes until an error.
        ("aggregate", lambda coll: coll.aggregate([{"$merge": "x"}]), [failure(11000)], {}, OperationFailure, True),
        ("aggregate", lambda coll: coll.aggregate([{"$out": "x"}]), [failure(11000)], {}, OperationFailure, True),
        ("aggregate", lambda coll: coll.aggregate([{"$match": {}}]), [failure(11000)], {}, OperationFailure, False),
    ],
)
async def test_other_operations(
    name: str,
    call: Callable[[Any], Awaitable[Any]],
    answers: list[Answer],
    options: dict[str, Any],
    kind: Any,
    may_be: bool,
) -> None:
    async with subject(**options) as it:
        it.server.on(name, *answers)
        with pytest.raises(PyMongoError) as raised:
            await call(it.client.db.coll)
        assert isinstance(raised.value, kind)
        assert raised.value.may_have_been_executed is may_be


async def test_a_write_whose_retry_finds_no_server() -> None:
    async with subject(serverSelectionTimeoutMS=100) as it:
        await it.client.admin.command("ping")

        def die(_: object) -> Answer:
            it.server.is_down = True
            it.server.drop_connections()
            return LOST

        it.server.on("insert", die)
        with pytest.raises(ConnectionFailure) as raised:
            await it.client.db.coll.insert_one({})
        assert raised.value.may_have_been_executed


async def test_a_write_that_was_not_sent() -> None:
    async with subject(serverSelectionTimeoutMS=100) as it:
        it.server.is_down = True
        with pytest.raises(ServerSelectionTimeoutError) as raised:
            await it.client.db.coll.insert_one({})
        assert not raised.value.may_have_been_executed


# --- several writes ---


async def test_a_write_whose_last_attempts_were_not_sent_has_reached_the_server() -> None:
    breaker = CircuitBreaker(min_operations=1, open_for=60)
    async with subject(circuit_breaker=breaker, retry_strategy=BestEffort(), timeoutMS=1000) as it:
        it.server.on("insert", LOST)
        with pytest.raises(ExecutionTimeout) as raised:
            await it.client.db.coll.insert_one({})
        error = raised.value
        assert isinstance(error.__cause__, CircuitBreakerOpenError)
        assert error.reached_server
        assert error.may_have_been_executed
        assert not error.__cause__.reached_server


async def test_the_client_is_closed_before_a_write_is_sent_again() -> None:
    async with subject() as it:
        it.server.on("bulkWrite", HOST_UNREACHABLE)
        it.server.hello = {"maxWireVersion": V8_0}
        errors: list[PyMongoError] = []

        async def write() -> None:
            with pytest.raises(PyMongoError) as raised:
                await it.client.bulk_write([InsertOne({}, namespace="db.coll")], timeoutMS=60_000)
            errors.append(raised.value)

        async with anyio.create_task_group() as group:
            group.start_soon(write)
            await anyio.sleep(0.3)  # a backoff of half a second has begun
            await it.client.close()
        (error,) = errors
        assert isinstance(error, ClientBulkWriteException)
        assert isinstance(error.error, InvalidOperation)
        assert error.reached_server
        assert error.may_have_been_executed


@pytest.mark.parametrize(
    ("answers", "may_be"),
    [
        ([LOST, OVERLOADED], True),
        ([{"n": 1}, OVERLOADED], True),
        ([OVERLOADED], False),
    ],
    ids=["lost", "a part", "refused"],
)
async def test_a_bulk_write_that_a_refusal_ends(answers: list[Answer], may_be: bool) -> None:
    async with subject() as it:
        it.server.hello = {"maxWriteBatchSize": 1}
        it.server.on("insert", *answers)
        with pytest.raises(PyMongoError) as raised:
            await it.client.db.coll.insert_many([{}, {}])
        assert raised.value.may_have_been_executed is may_be
        assert raised.value.partial_result.inserted_count == (1 if answers[0] == {"n": 1} else 0)


@pytest.mark.parametrize(("unknown", "may_be"), [([LOST], True), ([], False)])
async def test_a_bulk_write_of_a_client(unknown: list[Answer], may_be: bool) -> None:
    async with subject() as it:
        it.server.hello = {"maxWireVersion": V8_0}
        it.server.on("bulkWrite", *unknown, OVERLOADED)
        with pytest.raises(ClientBulkWriteException) as raised:
            await it.client.bulk_write([InsertOne({}, namespace="db.coll")])
        assert raised.value.may_have_been_executed is may_be
        assert raised.value.error.may_have_been_executed is may_be


async def test_a_bulk_write_of_a_client_with_an_error() -> None:
    async with subject() as it:
        BulkWriteServer(it.server)
        models = [InsertOne({"_id": 1}, namespace="db.coll")] * 2
        with pytest.raises(ClientBulkWriteException) as raised:
            await it.client.bulk_write(models)
        assert raised.value.may_have_been_executed


async def test_a_bulk_write_of_a_client_with_an_error_in_the_middle_of_many_documents() -> None:
    async with subject() as it:
        it.server.hello = {"maxWireVersion": V8_0}
        failed = {"ok": 0, "idx": 0, "code": 11000, "errmsg": "x", "n": 0}
        counts = dict.fromkeys(("nInserted", "nUpserted", "nMatched", "nModified", "nDeleted"), 0)
        cursor = {"id": 0, "ns": "admin.$cmd.bulkWrite", "firstBatch": [failed]}
        it.server.on("bulkWrite", {"cursor": cursor, "nErrors": 1, **counts})
        for kind, may_be in ((UpdateMany, True), (UpdateOne, False)):
            with pytest.raises(ClientBulkWriteException) as raised:
                await it.client.bulk_write([kind({}, {"$set": {"x": 1}}, namespace="db.coll")])
            assert raised.value.may_have_been_executed is may_be


@pytest.mark.parametrize("ordered", [True, False])
async def test_an_unacknowledged_bulk_write_that_was_sent_in_part(ordered: bool) -> None:
    async with subject() as it:
        it.server.hello = {"maxWireVersion": V8_0, "maxBsonObjectSize": 1000}
        coll = it.client.db.get_collection("coll", write_concern=WriteConcern(w=0))
        small: InsertOne[Any] = InsertOne({})
        large = DeleteOne({"x": "x" * 20_000})
        with pytest.raises(DocumentTooLarge) as raised:
            await coll.bulk_write([small, large], ordered=ordered)
        assert raised.value.may_have_been_executed
        with pytest.raises(DocumentTooLarge) as raised:
            await coll.bulk_write([large], ordered=ordered)
        assert not raised.value.may_have_been_executed


async def test_an_unacknowledged_bulk_write_of_a_client_that_was_sent_in_part() -> None:
    async with subject() as it:
        it.server.hello = {"maxWireVersion": V8_0, "maxBsonObjectSize": 1000}
        small, large = (InsertOne({"x": "x" * size}, namespace="db.coll") for size in (1, 20_000))
        for models, may_be in (([small, large], True), ([large], False)):
            with pytest.raises(PyMongoError) as raised:
                await it.client.bulk_write(models, ordered=False, write_concern=WriteConcern(w=0))
            assert raised.value.may_have_been_executed is may_be


# --- copies ---


async def test_copies_of_the_error() -> None:
    async with subject() as it:
        it.server.on("insert", LOST, OVERLOADED)
        with pytest.raises(OperationFailure) as raised:
            await it.client.db.coll.insert_one({})
        error = raised.value
        for twin in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error)), detached(error)):
            assert twin.may_have_been_executed
        assert not PyMongoError().may_have_been_executed
        assert names(it.deployment)
