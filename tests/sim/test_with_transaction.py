"""`with_transaction`: what it repeats, how long it waits, when it gives up, and its time limit."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext, suppress
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
from motorlite.retry import RetryBudget
from motorlite.testing.scripted import Close, Hang, Reply, failure, overloaded
from tests.support.core import gaps
from tests.support.kept_errors import garbage, without_collector
from tests.support.transactions import REJECTED, Subject, carried, numbered, subject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite import AsyncClientSession
    from motorlite.testing.scripted import Answer, ScriptedDeployment
    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

TRANSIENT, UNKNOWN = "TransientTransactionError", "UnknownTransactionCommitResult"
SHUTTING_DOWN = failure(91, "RetryableWriteError")


class Calling(Subject):
    """A subject with a callback, which inserts a document."""

    def __init__(self, deployment: ScriptedDeployment, client: Client, session: AsyncClientSession[Any]) -> None:
        super().__init__(deployment, client, session)
        # The loop time of each call of the callback.
        self.calls: list[float] = []

    async def callback(self, session: AsyncClientSession[Any]) -> str:
        self.calls.append(anyio.current_time())
        await self.insert(session)
        return "done"

    async def call(self, **options: Any) -> str:
        return await self.session.with_transaction(self.callback, **options)

    async def call_fails(self, **options: Any) -> PyMongoError:
        return await self.fails(lambda: self.call(**options))

    def limit(self, name: str) -> int:
        """The maxTimeMS of the only command of this name."""
        (command,) = self.server.commands(name)
        found: int = command["maxTimeMS"]
        return found


@asynccontextmanager
async def calling(*, session: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[Calling]:
    async with subject(session=session, **options) as made:
        yield Calling(made.deployment, made.client, made.session)
    assert made.session._state.deadline is None


@pytest.fixture
async def it() -> AsyncIterator[Calling]:
    async with calling() as made:
        yield made


async def test_it_returns_what_the_callback_returns(it: Calling) -> None:
    """Prose test "Callback Returns a Value"."""
    assert await it.call() == "done"
    assert it.names == ["insert", "commitTransaction"]


async def test_its_options_are_those_of_the_transaction() -> None:
    defaults = TransactionOptions(ReadConcern("majority"), WriteConcern(1))
    async with calling(session={"default_transaction_options": defaults}) as it:
        await it.call(write_concern=WriteConcern(2), max_commit_time_ms=7)
        assert carried(it.server, "insert")[0]["readConcern"] == {"level": "majority"}
        assert carried(it.server, "commitTransaction")[0]["writeConcern"] == {"w": 2}
        assert it.limit("commitTransaction") == 7


@pytest.mark.parametrize("error", [ZeroDivisionError(), KeyError("x"), AutoReconnect("mine")])
async def test_other_errors_of_the_callback_leave_it(it: Calling, error: Exception) -> None:
    """Prose test "Callback Raises a Custom Error"."""

    async def callback(session: AsyncClientSession[Any]) -> None:
        await it.insert(session)
        raise error

    with pytest.raises(type(error)) as raised:
        await it.session.with_transaction(callback)
    assert raised.value is error
    assert it.names == ["insert", "abortTransaction"]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
async def test_a_callback_that_ends_the_transaction(it: Calling, end: str, fails: bool) -> None:
    async def callback(session: AsyncClientSession[Any]) -> int:
        await it.insert(session)
        await getattr(session, end)()
        return 7 // (not fails)

    with pytest.raises(ZeroDivisionError) if fails else nullcontext():
        assert await it.session.with_transaction(callback) == 7
    assert len(it.names) == 2


async def test_a_commit_by_the_callback_with_an_unknown_result_is_not_repeated(it: Calling) -> None:
    it.server.on("commitTransaction", failure(50))

    async def callback(session: AsyncClientSession[Any]) -> None:
        await it.insert(session)
        await session.commit_transaction()

    error = await it.fails(lambda: it.session.with_transaction(callback))
    assert isinstance(error, ExecutionTimeout)
    assert error.has_error_label(UNKNOWN)
    assert len(it.names) == 2


@pytest.mark.parametrize("name", ["insert", "commitTransaction"])
@pytest.mark.parametrize(("jitter", "duration"), [(0.0, 0), (1.0, 2.3)])
async def test_the_backoff_between_transactions(name: str, jitter: float, duration: float) -> None:
    """Prose test "Retry Backoff is Enforced"."""
    async with calling(jitter=jitter) as it:
        it.server.on(name, *[REJECTED] * 13, {"n": 1})
        start = anyio.current_time()
        assert await it.call() == "done"
        assert anyio.current_time() - start == pytest.approx(duration, abs=0.1 if jitter else 0)
        assert len(it.calls) == len({number for _, number in numbered(it.server)}) == 14
        found = gaps(it.calls)
        assert found == sorted(found)
        assert (found[0], found[-1]) == (jitter * 0.0075, jitter * 0.5)


async def test_a_commit_is_repeated_until_its_result_is_known(it: Calling) -> None:
    it.server.on("commitTransaction", *[SHUTTING_DOWN] * 5, {})
    assert await it.call() == "done"
    assert len(it.calls) == 1
    concerns = [each.get("writeConcern") for each in carried(it.server, "commitTransaction")]
    assert concerns == [None, *[{"w": "majority", "wtimeout": 10_000}] * 5]


@pytest.mark.parametrize("limit", [{}, {"timeoutMS": 100_000}], ids=["no limit", "a limit"])
async def test_tokens_bound_the_further_commits(limit: dict[str, Any]) -> None:
    """A series of commits does not pay for itself, though the free retry of each one fails, too."""
    budget = RetryBudget(5)
    async with calling(retry_budget=budget) as it:
        it.server.on("commitTransaction", SHUTTING_DOWN)
        error = await it.call_fails(**limit)
        assert error.retry_refusal == "tokens"
        assert budget.tokens == 0
        # Without a limit, each of the first commit, the free further one and five more is retried once.
        assert len(it.server.commands("commitTransaction")) == (9 if limit else 14)


@pytest.mark.parametrize(
    ("last", "expected"), [({}, 2.1), (failure(13), 2), (overloaded(), 1)], ids=["succeeds", "fails", "is refused"]
)
async def test_the_last_commit_of_a_series_returns_its_token(last: Answer, expected: float) -> None:
    budget = RetryBudget(3)
    async with calling(retry_budget=budget, maxAdaptiveRetries=0) as it:
        # Two commits with their retries, then one that costs a token, and another.
        it.server.on("commitTransaction", *[SHUTTING_DOWN] * 6, last, failure(13))
        with suppress(PyMongoError):
            await it.call()
        assert budget.tokens == pytest.approx(expected)


async def test_a_commit_that_is_cancelled_in_its_backoff_returns_its_token() -> None:
    budget = RetryBudget(8)
    async with calling(retry_budget=budget) as it:
        it.server.on("commitTransaction", SHUTTING_DOWN)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.call)
            # Each commit is retried once; after six of them, the wait is long enough to be met. Four took a token.
            for _ in range(10_000):
                await anyio.sleep(0.001)
                if budget.tokens == 3 and len(it.server.commands("commitTransaction")) == 12:
                    break
            assert budget.tokens == 3
            tasks.cancel_scope.cancel()
        assert budget.tokens == 4
        assert it.names[-1] == "commitTransaction"


@pytest.mark.parametrize("how", ["the client is closed", "the session is ended", "it waits for a server"])
async def test_the_result_is_unknown_if_the_further_commit_is_refused(how: str) -> None:
    budget = RetryBudget(8)
    async with calling(retry_budget=budget) as it:
        it.server.on("commitTransaction", SHUTTING_DOWN)
        found: list[PyMongoError] = []

        async def call() -> None:
            found.append(await it.call_fails())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            for _ in range(10_000):
                await anyio.sleep(0.001)
                if len(it.server.commands("commitTransaction")) == 12 and budget.tokens == 3:
                    break
            assert budget.tokens == 3
            if how == "the session is ended":
                await it.session.end_session()
            else:
                if how == "it waits for a server":
                    it.server.on("hello", Hang())
                    (server,) = it.client._core.topology.servers
                    server.pool.clear(None)
                    await anyio.sleep(1.5)
                    assert len(it.server.commands("commitTransaction")) == 12
                await it.client.close()
        assert budget.tokens == 4
        (error,) = found
        assert isinstance(error, InvalidOperation)
        assert error.error_labels == {UNKNOWN}
        assert error.may_have_been_executed
        assert isinstance(error.__cause__, AutoReconnect)
        assert error.address == error.__cause__.address


async def test_a_further_commit_that_was_sent_costs_its_token() -> None:
    """The client is closed in the backoff of that commit: its error is the cause."""
    budget = RetryBudget(8)
    async with calling(retry_budget=budget) as it:
        it.server.on("commitTransaction", *[SHUTTING_DOWN] * 4, overloaded(baseBackoffMS=60_000))
        found: list[PyMongoError] = []

        async def call() -> None:
            found.append(await it.call_fails())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            for _ in range(10_000):
                await anyio.sleep(0.001)
                if len(it.server.commands("commitTransaction")) == 5:
                    break
            await anyio.sleep(0.002)
            assert budget.tokens == 6
            await it.client.close()
        assert budget.tokens == 7
        (error,) = found
        assert isinstance(error, InvalidOperation)
        assert isinstance(error.__cause__, OperationFailure)
        assert (error.__cause__.code, error.may_have_been_executed) == (462, True)


async def test_no_commit_was_sent_before_the_client_is_closed() -> None:
    async with calling(serverSelectionTimeoutMS=100) as it:
        found: list[PyMongoError] = []

        async def callback(session: AsyncClientSession[Any]) -> None:
            await it.insert(session)
            it.server.on("hello", Close())
            (server,) = it.client._core.topology.servers
            server.pool.clear(None)

        async def call() -> None:
            found.append(await it.fails(lambda: it.session.with_transaction(callback)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await anyio.sleep(1.0)
            await it.client.close(0)
        assert it.server.commands("commitTransaction") == []
        (error,) = found
        assert isinstance(error, InvalidOperation)
        assert error.error_labels == {UNKNOWN}
        assert not error.may_have_been_executed


async def test_a_commit_that_was_lost_starts_again(it: Calling) -> None:
    it.server.on("commitTransaction", SHUTTING_DOWN, REJECTED, {})
    assert await it.call() == "done"
    assert len(it.calls) == 2
    assert numbered(it.server)[-1] == ("commitTransaction", 2)


@pytest.mark.parametrize("answer", [failure(50), failure(11000), {"writeConcernError": {"code": 100, "errmsg": "x"}}])
async def test_other_errors_of_the_commit_leave_it(it: Calling, answer: Answer) -> None:
    it.server.on("commitTransaction", answer)
    await it.call_fails()
    assert it.names == ["insert", "commitTransaction"]


# --- time ---


@pytest.mark.parametrize("name", ["insert", "commitTransaction"])
@pytest.mark.parametrize("options", [{}, {"timeoutMS": 10_000}], ids=["120 s", "timeoutMS"])
async def test_it_gives_up_transactions_when_time_runs_out(it: Calling, name: str, options: dict[str, Any]) -> None:
    """Prose test "Retry Timeout is Enforced"."""
    limit = 10 if options else 120
    it.server.on(name, Reply({**REJECTED, "errorLabels": [TRANSIENT, "mine"]}, limit - 0.007))
    start = anyio.current_time()
    error = await it.call_fails(**options)
    # The backoff of 7.5 ms would have ended after it.
    assert anyio.current_time() - start == pytest.approx(limit - 0.007)
    assert type(error) is (ExecutionTimeout if options else NetworkTimeout)
    assert isinstance(error.__cause__, OperationFailure)
    assert error.error_labels == error.__cause__.error_labels == {TRANSIENT, "mine"}


@pytest.mark.parametrize("is_timeout", [False, True])
async def test_it_gives_up_commits_when_time_runs_out(it: Calling, is_timeout: bool) -> None:
    late = {"writeConcernError": {"code": 64, "errmsg": "late", "errInfo": {"wtimeout": True}}}
    it.server.on("commitTransaction", Reply(late if is_timeout else SHUTTING_DOWN, 1.0))
    start = anyio.current_time()
    error = await it.call_fails()
    # It is not committed again when the backoff of a second would end after it.
    assert 119 <= anyio.current_time() - start <= 122
    # An error that is a timeout is raised as it is.
    assert isinstance(error, WTimeoutError if is_timeout else NetworkTimeout)
    assert (error.__cause__ is None) is is_timeout
    assert error.error_labels == {UNKNOWN} | (set() if is_timeout else {"RetryableWriteError"})
    if is_timeout:  # else each commit is retried
        # A second for each, and a backoff of a second between most of them.
        assert len(it.server.commands("commitTransaction")) == 63


@pytest.mark.parametrize("where", ["call", "session", "client", "block"])
async def test_the_time_limit_applies_to_the_operations_of_the_callback(where: str) -> None:
    session = {"defaultTimeoutMS": 500} if where == "session" else {}
    client = {"timeoutMS": 500} if where == "client" else {}
    options: dict[str, Any] = {"timeoutMS": 500} if where == "call" else {}
    async with calling(session=session, **client) as it:
        it.server.on("insert", Reply({"n": 1}, 0.2))
        with motorlite.timeout(0.5 if where == "block" else None):
            assert await it.call(**options) == "done"
        assert 490 <= it.limit("insert") <= 500
        assert 290 <= it.limit("commitTransaction") <= 300
        it.server.on("insert", Hang())
        start = anyio.current_time()
        with motorlite.timeout(0.5 if where == "block" else None):
            error = await it.call_fails(**options)
        assert error.timeout
        assert anyio.current_time() - start == pytest.approx(0.5)
        # The abort has a limit of its own.
        assert 490 <= it.limit("abortTransaction") <= 500


async def test_operations_in_it_have_no_limit_of_their_own(it: Calling) -> None:
    async def callback(session: AsyncClientSession[Any]) -> None:
        for refused in (
            it.coll.insert_one({}, session=session, timeoutMS=5),
            it.coll.find_one({}, session=session, timeoutMS=5),
            it.coll.find({}, session=session, timeoutMS=5).to_list(),
            session.commit_transaction(timeoutMS=5),
        ):
            with pytest.raises(InvalidOperation, match="timeoutMS cannot be set"):
                await refused
        await it.coll.insert_one({}, timeoutMS=5000)
        assert await it.coll.with_options(timeoutMS=9).find({}, session=session).to_list() == []

    await it.session.with_transaction(callback, timeoutMS=500)
    assert 490 <= it.limit("find") <= 500
    assert it.names == ["insert", "find", "commitTransaction"]


async def test_no_limit_at_all() -> None:
    async with calling(timeoutMS=500) as it:
        it.server.on("insert", Reply(REJECTED, 100.0), Reply(REJECTED, 100.0), {"n": 1})
        assert await it.call(timeoutMS=0) == "done"


async def test_the_callers_scope_lets_the_error_out(it: Calling) -> None:
    it.server.on("insert", Reply(REJECTED, 0.999))
    with anyio.move_on_after(1) as scope:
        error = await it.call_fails()
        assert isinstance(error, OperationFailure)
        assert error.code == 251
    assert not scope.cancelled_caught


@pytest.mark.parametrize("where", ["callback", "commit", "backoff"])
async def test_a_cancelled_call(it: Calling, where: str) -> None:
    it.server.on("commitTransaction", Hang() if where == "commit" else REJECTED)

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
    assert ("abortTransaction" in it.names) is (where == "callback")
    assert not it.session.in_transaction
    it.server.on("commitTransaction", {})
    assert await it.call() == "done"


# --- misuse ---


async def test_wrong_arguments(it: Calling) -> None:
    with pytest.raises(TypeError, match="callback must be a function"):
        await it.session.with_transaction(5)  # type: ignore[arg-type]  # what is tested
    for value in (-1, float("nan")):
        with pytest.raises(ValueError, match="timeoutMS"):
            await it.call(timeoutMS=value)
    with pytest.raises(TypeError, match="read_concern"):
        await it.call(read_concern="majority")
    it.session.start_transaction()
    with pytest.raises(InvalidOperation, match="Transaction already in progress"):
        await it.call()
    assert not it.calls
    await it.session.abort_transaction()
    for call in (it.session.commit_transaction, it.session.abort_transaction, it.session.end_session):
        with pytest.raises((TypeError, ValueError)):
            await call(timeoutMS="x")  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize("is_call", [False, True])
async def test_a_callback_that_starts_another_transaction(it: Calling, is_call: bool) -> None:
    async def callback(session: AsyncClientSession[Any]) -> None:
        if is_call:
            await session.with_transaction(it.callback)
        session.start_transaction()

    with pytest.raises(InvalidOperation, match="already in progress"):
        await it.session.with_transaction(callback, timeoutMS=500)
    assert not it.session.in_transaction
    assert it.session._state.deadline is None


async def test_a_call_in_a_call_that_is_caught_keeps_the_time_limit(it: Calling) -> None:
    async def callback(session: AsyncClientSession[Any]) -> None:
        with pytest.raises(InvalidOperation, match="already in progress"):
            await session.with_transaction(it.callback)
        await it.insert(session)

    await it.session.with_transaction(callback, timeoutMS=500)
    assert 490 <= it.limit("insert") <= 500


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        *((each, {}) for each in (REJECTED, Close(), failure(11000), Reply(REJECTED, 200))),
        # A timeout is raised as it is, not in place of another error.
        (Hang(), {"timeoutMS": 500}),
    ],
)
@pytest.mark.parametrize("name", ["insert", "commitTransaction"])
async def test_errors_leave_no_cycles(it: Calling, name: str, answer: Answer, options: dict[str, Any]) -> None:
    it.server.on(name, answer, answer, answer, failure(11000))
    timeouts = []
    with without_collector():
        for _ in range(2):
            try:
                await it.call(**options)
            except PyMongoError as error:
                timeouts.append(error.timeout)
        assert garbage() == []
    assert timeouts[:1] == [True] or not options
