"""`with_transaction`: what it repeats, how long it waits, when it gives up, and its time limit."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import motorlite
from motorlite import ReadConcern, WriteConcern
from motorlite.client_session import TransactionOptions
from motorlite.errors import (
    AutoReconnect,
    ExecutionTimeout,
    InvalidOperation,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    WTimeoutError,
)
from motorlite.testing.scripted import Close, Hang, Reply, failure
from tests.support.clients import scripted_client
from tests.support.kept_errors import garbage, without_collector
from tests.support.transactions import REJECTED, carried, in_use, numbered, replica_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite import AsyncClientSession
    from motorlite.testing.scripted import Answer, ScriptedServer
    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

TRANSIENT, UNKNOWN = "TransientTransactionError", "UnknownTransactionCommitResult"
SHUTTING_DOWN = failure(91, "RetryableWriteError")


class Subject:
    """A session in a replica set of one member, and a callback that inserts a document."""

    def __init__(self, server: ScriptedServer, client: Client, session: AsyncClientSession[Any]) -> None:
        self.server = server
        self.client = client
        self.session = session
        # The loop time of each call of the callback.
        self.calls: list[float] = []

    async def insert(self, session: AsyncClientSession[Any]) -> str:
        self.calls.append(anyio.current_time())
        await self.client.db.coll.insert_one({}, session=session)
        return "done"

    async def fails(self, **options: Any) -> PyMongoError:
        with pytest.raises(PyMongoError) as raised:
            await self.session.with_transaction(self.insert, **options)
        return raised.value


@asynccontextmanager
async def subject(*, session: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[Subject]:
    deployment = replica_set()
    async with scripted_client(deployment, **options) as client:
        await client.admin.command("ping")
        deployment["a:1"].received.clear()
        async with client.start_session(**session or {}) as started:
            yield Subject(deployment["a:1"], client, started)
        assert started._state.deadline is None
        assert in_use(client) == 0


async def test_it_returns_what_the_callback_returns() -> None:
    """Prose test "Callback Returns a Value"."""
    async with subject() as it:
        assert await it.session.with_transaction(it.insert) == "done"
        assert [each.name for each in it.server.received] == ["insert", "commitTransaction"]


async def test_its_options_are_those_of_the_transaction() -> None:
    defaults = TransactionOptions(ReadConcern("majority"), WriteConcern(1))
    async with subject(session={"default_transaction_options": defaults}) as it:
        await it.session.with_transaction(it.insert, write_concern=WriteConcern(2), max_commit_time_ms=7)
        assert carried(it.server, "insert")[0]["readConcern"] == {"level": "majority"}
        (commit,) = it.server.commands("commitTransaction")
        assert (commit["writeConcern"], commit["maxTimeMS"]) == ({"w": 2}, 7)


@pytest.mark.parametrize("error", [ZeroDivisionError(), KeyError("x"), AutoReconnect("mine")])
async def test_other_errors_of_the_callback_leave_it(error: Exception) -> None:
    """Prose test "Callback Raises a Custom Error"."""
    async with subject() as it:

        async def callback(session: AsyncClientSession[Any]) -> None:
            await it.insert(session)
            raise error

        with pytest.raises(type(error)) as raised:
            await it.session.with_transaction(callback)
        assert raised.value is error
        assert [each.name for each in it.server.received] == ["insert", "abortTransaction"]


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
async def test_a_callback_that_ends_the_transaction(end: str) -> None:
    async with subject() as it:

        async def callback(session: AsyncClientSession[Any]) -> int:
            await it.insert(session)
            await getattr(session, end)()
            return 7

        assert await it.session.with_transaction(callback) == 7
        assert len(it.server.received) == 2


async def test_a_callback_that_ends_it_and_fails() -> None:
    async with subject() as it:

        async def callback(session: AsyncClientSession[Any]) -> None:
            await it.insert(session)
            await session.abort_transaction()
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await it.session.with_transaction(callback)
        assert len(it.server.commands("abortTransaction")) == 1


async def test_a_commit_by_the_callback_with_an_unknown_result_is_not_repeated() -> None:
    async with subject() as it:
        it.server.on("commitTransaction", failure(50))

        async def callback(session: AsyncClientSession[Any]) -> None:
            await it.insert(session)
            await session.commit_transaction()

        with pytest.raises(ExecutionTimeout) as raised:
            await it.session.with_transaction(callback)
        assert raised.value.has_error_label(UNKNOWN)
        assert len(it.server.received) == 2


@pytest.mark.parametrize("name", ["insert", "commitTransaction"])
async def test_the_backoff_between_transactions(name: str) -> None:
    """Prose test "Retry Backoff is Enforced"."""
    durations = []
    for jitter in (0.0, 1.0):
        async with subject(jitter=jitter) as it:
            it.server.on(name, *[REJECTED] * 13, {"n": 1})
            start = anyio.current_time()
            assert await it.session.with_transaction(it.insert) == "done"
            durations.append(anyio.current_time() - start)
            assert len(it.calls) == 14
            assert len({number for _, number in numbered(it.server)}) == 14
            gaps = [round(after - before, 6) for before, after in zip(it.calls, it.calls[1:], strict=False)]
            assert gaps == sorted(gaps)
            assert gaps[0] == jitter * 0.0075
            assert gaps[-1] == jitter * 0.5
    assert durations[0] == 0
    assert durations[1] == pytest.approx(2.3, abs=0.1)


async def test_a_commit_is_repeated_until_its_result_is_known() -> None:
    async with subject() as it:
        it.server.on("commitTransaction", *[SHUTTING_DOWN] * 5, {})
        assert await it.session.with_transaction(it.insert) == "done"
        assert len(it.calls) == 1
        concerns = [each.get("writeConcern") for each in carried(it.server, "commitTransaction")]
        assert concerns == [None, *[{"w": "majority", "wtimeout": 10_000}] * 5]


async def test_a_commit_that_was_lost_starts_again() -> None:
    async with subject() as it:
        it.server.on("commitTransaction", SHUTTING_DOWN, REJECTED, {})
        assert await it.session.with_transaction(it.insert) == "done"
        assert len(it.calls) == 2
        assert numbered(it.server)[-1] == ("commitTransaction", 2)


@pytest.mark.parametrize("answer", [failure(50), failure(11000), {"writeConcernError": {"code": 100, "errmsg": "x"}}])
async def test_other_errors_of_the_commit_leave_it(answer: Answer) -> None:
    async with subject() as it:
        it.server.on("commitTransaction", answer)
        await it.fails()
        assert [each.name for each in it.server.received] == ["insert", "commitTransaction"]


# --- time ---


@pytest.mark.parametrize("name", ["insert", "commitTransaction"])
@pytest.mark.parametrize("options", [{}, {"timeoutMS": 10_000}], ids=["120 s", "timeoutMS"])
async def test_it_gives_up_transactions_when_time_runs_out(name: str, options: dict[str, Any]) -> None:
    """Prose test "Retry Timeout is Enforced"."""
    async with subject() as it:
        limit = 10 if options else 120
        it.server.on(name, Reply({**REJECTED, "errorLabels": [TRANSIENT, "mine"]}, limit - 0.007))
        start = anyio.current_time()
        error = await it.fails(**options)
        # The backoff of 7.5 ms would have ended after it.
        assert anyio.current_time() - start == pytest.approx(limit - 0.007)
        assert type(error) is (ExecutionTimeout if options else NetworkTimeout)
        assert error.timeout
        assert isinstance(error.__cause__, OperationFailure)
        assert error.error_labels == error.__cause__.error_labels == {TRANSIENT, "mine"}
        assert str(error.__cause__) in str(error)
        assert (error.code if isinstance(error, ExecutionTimeout) else 50) == 50


async def test_it_gives_up_commits_when_time_runs_out() -> None:
    async with subject() as it:
        it.server.on("commitTransaction", Reply(SHUTTING_DOWN, 1.0))
        start = anyio.current_time()
        error = await it.fails()
        # It is not committed again when the backoff of a second would end after it.
        assert 119 <= anyio.current_time() - start <= 122
        assert isinstance(error, NetworkTimeout)
        assert error.error_labels == {UNKNOWN, "RetryableWriteError"}


async def test_an_error_that_is_a_timeout_is_raised_as_it_is() -> None:
    async with subject() as it:
        late = {"writeConcernError": {"code": 64, "errmsg": "late", "errInfo": {"wtimeout": True}}}
        it.server.on("commitTransaction", Reply(late, 1.0))
        error = await it.fails()
        assert isinstance(error, WTimeoutError)
        assert error.__cause__ is None
        # A second for each, and a backoff of a second between most of them.
        assert len(it.server.commands("commitTransaction")) == 63


@pytest.mark.parametrize("where", ["call", "session", "client", "block"])
async def test_the_time_limit_applies_to_the_operations_of_the_callback(where: str) -> None:
    session = {"defaultTimeoutMS": 500} if where == "session" else {}
    client = {"timeoutMS": 500} if where == "client" else {}
    call: dict[str, Any] = {"timeoutMS": 500} if where == "call" else {}
    async with subject(session=session, **client) as it:
        it.server.on("insert", Reply({"n": 1}, 0.2))
        with motorlite.timeout(0.5 if where == "block" else None):
            assert await it.session.with_transaction(it.insert, **call) == "done"
        (insert,) = it.server.commands("insert")
        assert 490 <= insert["maxTimeMS"] <= 500
        (commit,) = it.server.commands("commitTransaction")
        assert 290 <= commit["maxTimeMS"] <= 300
        it.server.on("insert", Hang())
        start = anyio.current_time()
        with motorlite.timeout(0.5 if where == "block" else None):
            error = await it.fails(**call)
        assert error.timeout
        assert anyio.current_time() - start == pytest.approx(0.5)
        # The abort has a limit of its own.
        (abort,) = it.server.commands("abortTransaction")
        assert 490 <= abort["maxTimeMS"] <= 500


async def test_operations_in_it_have_no_limit_of_their_own() -> None:
    async with subject() as it:
        coll = it.client.db.coll

        async def callback(session: AsyncClientSession[Any]) -> None:
            for refused in (
                coll.insert_one({}, session=session, timeoutMS=5),
                coll.find_one({}, session=session, timeoutMS=5),
                coll.find({}, session=session, timeoutMS=5).to_list(),
                session.commit_transaction(timeoutMS=5),
            ):
                with pytest.raises(InvalidOperation, match="timeoutMS cannot be set"):
                    await refused
            await coll.insert_one({}, timeoutMS=5000)
            assert await coll.with_options(timeoutMS=9).find({}, session=session).to_list() == []

        await it.session.with_transaction(callback, timeoutMS=500)
        (find,) = it.server.commands("find")
        assert 490 <= find["maxTimeMS"] <= 500
        assert names_of(it) == ["insert", "find", "commitTransaction"]


def names_of(it: Subject) -> list[str]:
    return [each.name for each in it.server.received]


async def test_no_limit_at_all() -> None:
    async with subject(timeoutMS=500) as it:
        it.server.on("insert", Reply(REJECTED, 100.0), Reply(REJECTED, 100.0), {"n": 1})
        assert await it.session.with_transaction(it.insert, timeoutMS=0) == "done"


async def test_the_callers_scope_lets_the_error_out() -> None:
    async with subject() as it:
        it.server.on("insert", Reply(REJECTED, 0.999))
        with anyio.move_on_after(1) as scope:
            error = await it.fails()
            assert isinstance(error, OperationFailure)
            assert error.code == 251
        assert not scope.cancelled_caught


@pytest.mark.parametrize("where", ["callback", "commit", "backoff"])
async def test_a_cancelled_call(where: str) -> None:
    async with subject() as it:
        if where == "commit":
            it.server.on("commitTransaction", Hang())
        elif where == "backoff":
            it.server.on("commitTransaction", REJECTED)

        async def callback(session: AsyncClientSession[Any]) -> None:
            await it.insert(session)
            if where == "callback":
                await anyio.sleep(100)

        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(it.session.with_transaction, callback)
                await anyio.sleep(1)
                scope.cancel()
        await anyio.sleep(5)
        assert ("abortTransaction" in names_of(it)) is (where == "callback")
        assert not it.session.in_transaction
        it.server.on("commitTransaction", {})
        assert await it.session.with_transaction(it.insert) == "done"


# --- misuse ---


async def test_wrong_arguments() -> None:
    async with subject() as it:
        with pytest.raises(TypeError, match="callback must be a function"):
            await it.session.with_transaction(5)  # type: ignore[arg-type]  # what is tested
        with pytest.raises(ValueError, match="timeoutMS"):
            await it.session.with_transaction(it.insert, timeoutMS=-1)
        with pytest.raises(ValueError, match="timeoutMS"):
            await it.session.with_transaction(it.insert, timeoutMS=float("nan"))
        with pytest.raises(TypeError, match="read_concern"):
            await it.session.with_transaction(it.insert, read_concern="majority")  # type: ignore[arg-type]
        it.session.start_transaction()
        with pytest.raises(InvalidOperation, match="Transaction already in progress"):
            await it.session.with_transaction(it.insert)
        assert not it.calls
        await it.session.abort_transaction()
        for call in (it.session.commit_transaction, it.session.abort_transaction, it.session.end_session):
            with pytest.raises((TypeError, ValueError)):
                await call(timeoutMS="x")  # type: ignore[arg-type]  # what is tested


async def test_a_callback_that_starts_another_transaction() -> None:
    async with subject() as it:

        async def callback(session: AsyncClientSession[Any]) -> None:
            session.start_transaction()

        with pytest.raises(InvalidOperation, match="already in progress"):
            await it.session.with_transaction(callback)
        assert not it.session.in_transaction


async def test_a_call_in_a_call() -> None:
    async with subject() as it:

        async def callback(session: AsyncClientSession[Any]) -> None:
            await session.with_transaction(it.insert)

        with pytest.raises(InvalidOperation, match="already in progress"):
            await it.session.with_transaction(callback, timeoutMS=500)
        assert it.session._state.deadline is None


async def test_a_call_in_a_call_that_is_caught_keeps_the_time_limit() -> None:
    async with subject() as it:

        async def callback(session: AsyncClientSession[Any]) -> None:
            with pytest.raises(InvalidOperation, match="already in progress"):
                await session.with_transaction(it.insert)
            await it.insert(session)

        await it.session.with_transaction(callback, timeoutMS=500)
        (insert,) = it.server.commands("insert")
        assert 490 <= insert["maxTimeMS"] <= 500


@pytest.mark.parametrize("answer", [REJECTED, Close(), failure(11000), Reply(REJECTED, 200)])
@pytest.mark.parametrize("name", ["insert", "commitTransaction"])
async def test_errors_leave_no_cycles(name: str, answer: Answer) -> None:
    async with subject() as it:
        it.server.on(name, answer, answer, answer, failure(11000))
        with without_collector():
            for _ in range(2):
                try:
                    await it.session.with_transaction(it.insert)
                except PyMongoError:
                    continue
            assert garbage() == []


@pytest.mark.parametrize("name", ["insert", "commitTransaction"])
async def test_a_timeout_leaves_no_cycle(name: str) -> None:
    """It is raised as it is, not in place of another error."""
    async with subject() as it:
        it.server.on(name, Hang())
        timeouts = []
        with without_collector():
            try:
                await it.session.with_transaction(it.insert, timeoutMS=500)
            except PyMongoError as error:
                timeouts.append(error.timeout)
            assert garbage() == []
        assert timeouts == [True]
