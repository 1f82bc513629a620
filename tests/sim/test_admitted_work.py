"""What was begun is never refused: ends of transactions, further commands of cursors and bulk writes, housekeeping."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from motorlite import InsertOne, UpdateOne
from motorlite.errors import (
    AdmissionError,
    AutoReconnect,
    CircuitBreakerOpenError,
    ClientBulkWriteException,
    PyMongoError,
    WaitQueueTimeoutError,
)
from motorlite.overload import CircuitBreaker, ConcurrencyLimit, RateLimit, WaitQueue
from motorlite.testing.scripted import Close, Reply, ScriptedDeployment, failure
from tests.support.clients import scripted_client
from tests.support.core import FOUND, A, replica_set
from tests.support.pools import settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from motorlite.testing.scripted import ScriptedServer
    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

TRANSIENT, UNKNOWN = "TransientTransactionError", "UnknownTransactionCommitResult"
OVERLOADED_ONCE = failure(462, "SystemOverloadedError")
BREAKER = CircuitBreaker(min_operations=5, open_for=60)
OPEN = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}
LAST = {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": [{"_id": 2}]}}
WRITTEN = {"n": 1, "nModified": 1}
BULK_WRITTEN = {
    "cursor": {"id": 0, "ns": "admin.$cmd.bulkWrite", "firstBatch": []},
    **dict.fromkeys(("nErrors", "nUpserted", "nMatched", "nModified", "nDeleted"), 0),
    "nInserted": 1,
}


class Subject:
    """A client with one connection, and its server, whose admission can be shut."""

    def __init__(self, client: Client, deployment: ScriptedDeployment, gate: str) -> None:
        self.client = client
        self.coll = client.db.coll
        self.deployment = deployment
        self._gate = gate

    @property
    def a(self) -> ScriptedServer:
        return self.deployment["a:1"]

    @asynccontextmanager
    async def shut(self) -> AsyncIterator[None]:
        """The client refuses new operations."""
        if self._gate == "breaker":
            self.a.on("ping", OVERLOADED_ONCE)
            while self.client.stats().servers[A].breaker.state == "closed":  # type: ignore[union-attr]  # it has one
                with pytest.raises(PyMongoError):
                    await self.client.db.command("ping")
            yield
            return
        if self._gate == "rate limit":
            while self.client.stats().rate_limits["*"].tokens >= 1:
                await self.client.db.command("ping")
            yield
            return
        # One operation runs for a second, and others fill the queue.
        self.a.on("slow", Reply({"ok": 1}, 1.0))
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(self._fill)
            await settle()
            yield

    async def _fill(self) -> None:
        try:
            await self.client.db.command("slow")
        except AdmissionError:
            return


GATES: dict[str, dict[str, Any]] = {
    "breaker": {"circuit_breaker": BREAKER},
    "rate limit": {"rate_limit": RateLimit(rate=0.01, burst=10)},
    "full pool": {"wait_queue": WaitQueue("reject")},
    "full queue": {"wait_queue": WaitQueue("queue", max_depth=1)},
    "full queue, drop_oldest": {"wait_queue": WaitQueue("queue", max_depth=1, overflow_strategy="drop_oldest")},
    "full queue by priority": {
        "wait_queue": WaitQueue("queue", max_depth=1, ordering="priority", overflow_strategy="drop_oldest")
    },
    "no memory": {"wait_queue": WaitQueue("queue", memory_limit=250)},
    "concurrency limit": {
        "wait_queue": WaitQueue("reject"),
        "concurrency_limit": ConcurrencyLimit(initial=1, minimum=1),
        "maxPoolSize": 5,
    },
}
EVERY_GATE = pytest.mark.parametrize("gate", GATES)
NOT_LAST_IN = [name for name in GATES if "drop_oldest" not in name and "priority" not in name]


@asynccontextmanager
async def subject(gate: str, **options: Any) -> AsyncIterator[Subject]:
    deployment = replica_set(wire_version=25)
    server = deployment["a:1"]
    server.on("find", OPEN)
    server.on("getMore", LAST)
    for name in ("insert", "update"):
        server.on(name, WRITTEN)
    async with scripted_client(deployment, **{"maxPoolSize": 1, **GATES[gate], **options}) as client:
        await client.admin.command("ping")
        server.received.clear()
        yield Subject(client, deployment, gate)


# --- transactions ---


@EVERY_GATE
@pytest.mark.parametrize("end", ["commit", "abort"])
async def test_the_end_of_a_transaction_is_sent(gate: str, end: str) -> None:
    async with subject(gate) as one, one.client.start_session() as session:
        session.start_transaction()
        await one.coll.insert_one({}, session=session)
        async with one.shut():
            await (session.commit_transaction() if end == "commit" else session.abort_transaction())
        assert len(one.a.commands(f"{end}Transaction")) == 1
        assert not session.in_transaction


@EVERY_GATE
async def test_a_second_commit_is_sent(gate: str) -> None:
    """The first commit was executed and its reply lost: the application must be able to learn what came of it."""
    async with subject(gate, retryWrites=False) as one, one.client.start_session() as session:
        session.start_transaction()
        await one.coll.insert_one({}, session=session)
        one.a.on("commitTransaction", Close(), Close(), {"ok": 1})
        with pytest.raises(AutoReconnect) as raised:
            await session.commit_transaction()
        assert raised.value.has_error_label(UNKNOWN)
        await one.client.admin.command("hello")
        async with one.shut():
            await session.commit_transaction()
        assert len(one.a.commands("commitTransaction")) == 3


@pytest.mark.parametrize("gate", NOT_LAST_IN)
async def test_a_refusal_in_a_transaction_has_the_label(gate: str) -> None:
    async with subject(gate) as one, one.client.start_session() as session:
        session.start_transaction()
        await one.coll.insert_one({}, session=session)
        async with one.shut():
            with pytest.raises(AdmissionError) as raised:
                await one.coll.insert_one({}, session=session)
            error = raised.value
            assert error.error_labels == {TRANSIENT}
            assert not error.reached_server
            with pytest.raises(AdmissionError) as raised:
                await one.coll.insert_one({})
            assert not raised.value.error_labels, "outside of the transaction"
        await session.abort_transaction()


async def test_with_transaction_begins_again_after_a_refusal() -> None:
    async with subject("full pool") as one, one.client.start_session() as session:

        async def callback(own: Any) -> None:
            await one.coll.insert_one({}, session=own)

        async with one.shut():
            await session.with_transaction(callback)
        assert len(one.a.commands("commitTransaction")) == 1


async def test_a_commit_waits_within_its_deadline() -> None:
    async with subject("full pool") as one, one.client.start_session() as session:
        session.start_transaction()
        await one.coll.insert_one({}, session=session)
        async with one.shut():
            began = anyio.current_time()
            with pytest.raises(WaitQueueTimeoutError) as raised:
                await session.commit_transaction(timeoutMS=250)
            assert anyio.current_time() - began == pytest.approx(0.25)
            assert raised.value.has_error_label(UNKNOWN)
            assert raised.value.timeout
        await session.commit_transaction()


async def test_it_waits_longer_than_the_queue_lets_others_wait() -> None:
    queue = WaitQueue("queue", timeout=0.2)
    async with subject("full pool", wait_queue=queue) as one, one.client.start_session() as session:
        session.start_transaction()
        await one.coll.insert_one({}, session=session)
        async with one.shut():
            with pytest.raises(WaitQueueTimeoutError):
                await one.coll.find_one()
            await session.commit_transaction()


@pytest.mark.parametrize("gate", ["breaker", "rate limit"])
async def test_behind_a_load_balancer(gate: str) -> None:
    """The transaction and the cursor keep a connection each, and need no other one."""
    deployment = ScriptedDeployment(["a:1"], services=1, wire_version=25)
    server = deployment.services[0]
    server.on("find", OPEN)
    server.on("getMore", LAST)
    server.on("insert", WRITTEN)
    async with scripted_client(deployment, **GATES[gate], maxPoolSize=5) as client, client.start_session() as session:
        await client.admin.command("ping")
        session.start_transaction()
        await client.db.coll.insert_one({}, session=session)
        cursor, abandoned = client.db.coll.find(batch_size=1), client.db.coll.find(batch_size=1)
        await anext(cursor)
        await anext(abandoned)
        if gate == "breaker":
            server.on("ping", OVERLOADED_ONCE)
        error: PyMongoError | None = None
        while not isinstance(error, AdmissionError):
            try:
                await client.admin.command("ping")
            except PyMongoError as found:
                error = found
        with pytest.raises(AdmissionError) as raised:
            await client.db.coll.insert_one({}, session=session)
        assert raised.value.has_error_label(TRANSIENT)
        assert await anext(cursor) == {"_id": 2}
        await abandoned.close()
        await session.abort_transaction()
        assert [len(server.commands(name)) for name in ("getMore", "killCursors", "abortTransaction")] == [1, 1, 1]


# --- cursors ---


@EVERY_GATE
async def test_a_cursor_that_was_opened_is_read_and_closed(gate: str) -> None:
    """And sessions are ended."""
    async with subject(gate) as one:
        cursor = one.coll.find(batch_size=1)
        assert await anext(cursor) == {"_id": 1}
        abandoned = one.coll.find(batch_size=1)
        await anext(abandoned)
        async with one.shut():
            assert await anext(cursor) == {"_id": 2}
            await abandoned.close()
        server = one.a
        assert len(server.commands("killCursors")) == 1
    assert len(server.commands("endSessions")) == 1


@pytest.mark.parametrize("gate", NOT_LAST_IN)
async def test_a_refusal_does_not_resume_a_change_stream(gate: str) -> None:
    """Neither opening it nor a refusal on the way makes another cursor."""
    async with subject(gate) as one:
        async with one.shut():
            with pytest.raises(AdmissionError):
                async with await one.coll.watch():
                    raise AssertionError
        assert not one.a.commands("aggregate")


async def test_a_change_stream_whose_resumption_is_refused_resumes_later() -> None:
    async with subject("breaker") as one:
        one.a.on(
            "aggregate", {"cursor": {"id": 9, "ns": "db.coll", "firstBatch": [], "postBatchResumeToken": {"n": 1}}}
        )
        one.a.on("getMore", failure(43), {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": [{"_id": {"n": 2}}]}})
        async with await one.coll.watch() as stream, one.shut():
            with pytest.raises(CircuitBreakerOpenError):
                await stream.next()
            assert len(one.a.commands("aggregate")) == 1
            await anyio.sleep(61)
            assert (await stream.next())["_id"] == {"n": 2}
        assert len(one.a.commands("aggregate")) == 2


# --- bulk writes ---


async def shuts_half_way(one: Subject, write: Callable[[], Awaitable[Any]], *, command: str) -> Any:
    """Shut admission while the first command of `write` runs. Return the result or the error."""
    found: list[Any] = []

    async def run() -> None:
        try:
            found.append(await write())
        except PyMongoError as error:
            found.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await settle()
        assert len(one.a.commands(command)) == 1
        async with one.shut():
            await anyio.lowlevel.checkpoint()
    return found[0]


@EVERY_GATE
@pytest.mark.parametrize("is_acknowledged", [True, False], ids=["acknowledged", "w0"])
async def test_a_bulk_write_that_has_begun_is_finished(gate: str, is_acknowledged: bool) -> None:
    async with subject(gate, w=1 if is_acknowledged else 0, maxPoolSize=2 if gate == "breaker" else 1) as one:
        one.a.on("insert", Reply(WRITTEN, 0.5), WRITTEN)
        requests: list[Any] = [InsertOne({}), UpdateOne({}, {"$set": {"x": 1}}), InsertOne({})]
        found = await shuts_half_way(
            one, lambda: one.coll.bulk_write(requests, ordered=is_acknowledged), command="insert"
        )
        assert not isinstance(found, Exception), found
        assert [len(one.a.commands(name)) for name in ("insert", "update")] == [2 if is_acknowledged else 1, 1]


async def bulk_write_of_client(one: Subject, seconds: float) -> Any:
    """Two documents, each of which needs a command of its own; admission is shut while the first one runs."""
    one.a.hello["maxWriteBatchSize"] = 1
    one.a.drop_connections()
    one.a.on("bulkWrite", Reply(BULK_WRITTEN, seconds), BULK_WRITTEN)
    models: list[Any] = [InsertOne({}, namespace="db.coll"), InsertOne({}, namespace="db.coll")]
    await one.client.admin.command("ping")
    return await shuts_half_way(one, lambda: one.client.bulk_write(models), command="bulkWrite")


@EVERY_GATE
async def test_a_bulk_write_of_the_client_that_has_begun_is_finished(gate: str) -> None:
    async with subject(gate, maxPoolSize=2 if gate == "breaker" else 1) as one:
        found = await bulk_write_of_client(one, 0.5)
        assert not isinstance(found, Exception), found
        assert len(one.a.commands("bulkWrite")) == 2


async def test_reached_server_speaks_of_the_whole_bulk_write() -> None:
    """The second command got no connection in time, but the first one wrote."""
    requests: list[Any] = [InsertOne({}), UpdateOne({}, {"$set": {"x": 1}})]
    async with subject("full pool") as one:
        async with one.shut():
            with pytest.raises(AdmissionError) as raised:
                await one.coll.bulk_write(requests)
        assert not raised.value.reached_server
        assert not one.a.commands("insert")
    async with subject("full pool", wait_queue=None, waitQueueTimeoutMS=100) as one:
        one.a.on("insert", Reply(WRITTEN, 0.05), WRITTEN)
        found = await shuts_half_way(one, lambda: one.coll.bulk_write(requests), command="insert")
        assert isinstance(found, WaitQueueTimeoutError)
        assert found.partial_result.inserted_count == 1
        assert found.reached_server
    async with subject("full pool", wait_queue=None, waitQueueTimeoutMS=100) as one:
        found = await bulk_write_of_client(one, 0.05)
        assert isinstance(found, ClientBulkWriteException)
        assert isinstance(found.error, WaitQueueTimeoutError)
        assert found.reached_server
        assert found.error.reached_server


async def test_an_open_breaker_counts_what_it_lets_pass_only_as_a_probe() -> None:
    """Half-open, the continuation of a cursor is a probe like others: its success closes the breaker."""
    async with subject("breaker") as one:
        cursor = one.coll.find(batch_size=1)
        await anext(cursor)
        async with one.shut():
            with pytest.raises(CircuitBreakerOpenError):
                await one.coll.find_one()
            await anyio.sleep(61)
            assert await anext(cursor) == {"_id": 2}
            assert one.client.stats().servers[A].breaker.state == "closed"  # type: ignore[union-attr]  # it has one
        one.a.on("find", FOUND)
        assert await one.coll.find_one() == {"_id": 1}
