"""Transactions that are left while an operation runs, aborts that fail, and what a client that closes ends."""

from __future__ import annotations

import gc
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from motorlite._execution.transactions import Part
from motorlite._sessions.session import Session
from motorlite.errors import InvalidOperation, OperationFailure, PyMongoError
from motorlite.overload import WaitQueue
from motorlite.retry import RetryAction, RetryStrategy
from motorlite.testing.scripted import Close, Hang, Reply, ScriptedDeployment, failure
from tests.support.core import OVERLOADED, RETRYABLE_ONLY, replica_set
from tests.support.transactions import PLACES, Subject, in_a_transaction, in_use, subject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from anyio.abc import TaskGroup

    from motorlite import AsyncClientSession
    from motorlite.retry import RetryReason, RetryRequest
    from motorlite.testing.scripted import Answer

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SLOW = Reply({"n": 1}, 2.0)
NO_SUCH_TRANSACTION = failure(251, "TransientTransactionError")
FIRST = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 1}, {"_id": 2}]}}
MORE = {"cursor": {"id": 7, "ns": "db.coll", "nextBatch": [{"_id": 3}]}}


class Leaving(Subject):
    """A subject with tasks that outlive its transactions."""

    background: TaskGroup

    async def insert_two(self, session: AsyncClientSession[Any] | None = None) -> None:
        """What ``asyncio.gather`` does: the first error is raised while the other operation goes on."""
        failed: list[Exception] = []
        done = anyio.Event()

        async def one() -> None:
            try:
                await self.insert(session)
            except PyMongoError as error:
                failed.append(error)
                done.set()

        self.background.start_soon(one)
        self.background.start_soon(one)
        await done.wait()
        raise failed[0]

    async def leave_a_block(self, *operations: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run all operations but the last one in a transaction, and leave it while the last one runs."""

        async def block() -> None:
            async with self.session.start_transaction():
                for operation in operations[:-1]:
                    await operation()
                self.background.start_soon(operations[-1])
                await anyio.sleep(1)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await block()

    def stall(self) -> None:
        """The server reads no more from the connections that are open, so that requests are written half."""
        for stream in self.server.open_connections:
            stream.is_stalled = True

    def killed(self) -> list[int]:
        """The ids of the cursors that were killed."""
        return sorted(number for command in self.server.commands("killCursors") for number in command["cursors"])


@asynccontextmanager
async def leaving(deployment: ScriptedDeployment | None = None, **options: Any) -> AsyncIterator[Leaving]:
    async with subject(deployment, **options) as made:
        it = Leaving(made.deployment, made.client, made.session)
        async with anyio.create_task_group() as it.background:
            yield it
        await it.session.end_session()
        if not it.client._core._is_closed:
            await anyio.sleep(3)
        assert not it.client._core.executor.open_transactions


@pytest.fixture
async def it() -> AsyncIterator[Leaving]:
    async with leaving() as made:
        yield made


# --- the last operation to leave ---


@pytest.mark.parametrize("place", PLACES)
async def test_operations_at_the_same_time_abort_the_transaction(it: Leaving, place: str) -> None:
    it.server.on("insert", SLOW, {"n": 1})
    start = anyio.current_time()
    with pytest.raises(InvalidOperation, match="one after another"):
        await in_a_transaction(it.session, place, it.insert_two)
    assert anyio.current_time() == start, "nothing waits for the other operation"
    assert not it.session.in_transaction
    assert not it.ends()
    await anyio.sleep(2.5)
    assert it.ends() == [("abortTransaction", 1)]
    assert len(it.client._core.sessions) == 0, "the operation used it still"
    if not it.session.has_ended:
        async with it.session.start_transaction():
            await it.insert()
        assert it.ends()[-1] == ("commitTransaction", 2)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_the_error_of_the_block_is_raised(it: Leaving, is_cancelled: bool) -> None:
    it.server.on("insert", {"n": 1}, SLOW)
    with anyio.move_on_after(0.5 if is_cancelled else inf) as scope:
        await it.leave_a_block(it.insert, it.insert)
    assert scope.cancelled_caught is is_cancelled, "no error hides the cancellation"
    await anyio.sleep(2)
    assert it.ends() == [("abortTransaction", 1)]


@pytest.mark.parametrize("place", ["block", "with_transaction"])
async def test_a_block_that_ends_while_an_operation_runs(it: Leaving, place: str) -> None:
    """It cannot commit, so it has failed."""
    it.server.on("insert", SLOW)

    async def work(_: object) -> None:
        it.background.start_soon(it.insert)
        await anyio.sleep(1)

    with pytest.raises(InvalidOperation, match="still running"):
        await in_a_transaction(it.session, place, work)
    assert not it.session.in_transaction
    await anyio.sleep(2)
    assert it.ends() == [("abortTransaction", 1)]


async def test_the_next_transaction_does_not_wait(it: Leaving) -> None:
    it.server.on("insert", {"n": 1}, SLOW, {"n": 1})
    await it.leave_a_block(it.insert, it.insert)
    async with it.session.start_transaction():
        await it.insert()
    assert it.ends() == [("commitTransaction", 2)]
    await anyio.sleep(2)
    assert it.ends() == [("commitTransaction", 2), ("abortTransaction", 1)]


async def test_an_operation_that_waits_for_a_connection_is_not_sent() -> None:
    async with leaving(maxPoolSize=1) as it:
        it.server.on("find", Reply({"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}, 2.0))
        errors: list[PyMongoError] = []

        async def insert() -> None:
            try:
                await it.insert()
            except PyMongoError as error:
                errors.append(error)

        it.background.start_soon(it.coll.find_one)
        await anyio.sleep(0.1)
        await it.leave_a_block(insert)
        await anyio.sleep(2)
        assert [type(error) for error in errors] == [InvalidOperation]
        assert [one.name for one in it.server.received] == ["find"]


async def test_a_commit_in_flight_is_not_aborted(it: Leaving) -> None:
    it.server.on("commitTransaction", Reply({}, 2.0))
    await it.begin()
    it.background.start_soon(it.session.commit_transaction)
    await anyio.sleep(1)
    await it.session.end_session()
    await anyio.sleep(2)
    assert it.ends() == [("commitTransaction", 1)]


@pytest.mark.parametrize("how", ["block", "session"])
async def test_behind_a_load_balancer_the_abort_has_the_connection(how: str) -> None:
    async with leaving(ScriptedDeployment(["lb:1"], services=1), loadBalanced=True) as it:
        it.server.on("insert", {"n": 1}, SLOW)
        if how == "block":
            await it.leave_a_block(it.insert, it.insert)
        else:
            await it.begin()
            it.background.start_soon(it.insert)
            await anyio.sleep(0.1)
            await it.session.end_session()
        assert in_use(it.client) == 1
        await anyio.sleep(2)
        assert in_use(it.client) == 0
        assert it.ends() == [("abortTransaction", 1)]
        assert len({one.connection for one in it.server.received if "autocommit" in one.document}) == 1


# --- a commit that was cancelled before it was sent ---


@pytest.mark.parametrize(
    ("place", "then"),
    [
        ("block", "nothing"),
        ("block", "operation"),
        ("with_transaction", "nothing"),
        ("with_transaction", "transaction"),
        ("call", "operation"),
        ("call", "transaction"),
        ("call", "end"),
        ("call", "drop"),
        ("call", "commit"),
    ],
)
async def test_a_commit_that_was_cancelled_before_it_was_sent(place: str, then: str) -> None:
    """The session forgot the transaction, and the server kept it open for a minute."""
    async with leaving(maxPoolSize=1) as it:
        it.server.on("find", Reply({"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}, 2.0))
        session = it.client.start_session()

        async def work(session: AsyncClientSession[Any]) -> None:
            await it.insert(session)
            it.background.start_soon(it.coll.find_one)  # has the only connection for two seconds
            await anyio.sleep(0.5)

        with anyio.move_on_after(1) as scope:
            if place == "call":
                session.start_transaction()
                await work(session)
                await session.commit_transaction()
            else:
                await in_a_transaction(session, place, work)
        assert scope.cancelled_caught
        if then == "operation":
            await it.client.admin.command("ping", session=session)
        elif then == "transaction":
            async with session.start_transaction():
                await it.insert(session)
        elif then == "end":
            await session.end_session()
        elif then == "drop":
            del session
        elif then == "commit":
            await session.commit_transaction()
        await anyio.sleep(3)
        ends = [("abortTransaction", 1), ("commitTransaction", 2)][: 1 + (then == "transaction")]
        assert sorted(it.ends()) == ([("commitTransaction", 1)] if then == "commit" else ends)


@pytest.mark.parametrize("place", PLACES)
async def test_a_commit_that_was_cancelled_as_it_was_about_to_be_sent(it: Leaving, place: str) -> None:
    """A task on trio may be cancelled right before it writes, and everywhere one whose request is partly written."""

    async def work(session: AsyncClientSession[Any]) -> None:
        await it.insert(session)
        it.stall()

    with anyio.move_on_after(1) as scope:
        await in_a_transaction(it.session, place, work)
    assert scope.cancelled_caught
    await it.session.end_session()
    await anyio.sleep(3)
    assert it.ends() == [("abortTransaction", 1)]


@pytest.mark.parametrize("place", PLACES)
async def test_a_first_command_that_was_cancelled_as_it_was_about_to_be_sent(it: Leaving, place: str) -> None:
    it.server.on("abortTransaction", NO_SUCH_TRANSACTION)
    await it.client.admin.command("ping")

    async def work(session: AsyncClientSession[Any]) -> None:
        it.stall()
        await it.insert(session)

    with anyio.move_on_after(1) as scope:
        await in_a_transaction(it.session, place, work)
    assert scope.cancelled_caught
    await it.session.end_session()
    await anyio.sleep(60)
    assert len(it.ends()) == 1, "the server never gets what the abort might have overtaken"


@pytest.mark.parametrize(
    ("place", "then"),
    [
        ("with_transaction", "nothing"),
        ("block", "operation"),
        ("block", "transaction"),
        ("block", "end"),
        ("call", "drop"),
        ("call", "close"),
        ("call", "commit"),
    ],
)
async def test_a_commit_that_overloaded_servers_rejected(place: str, then: str) -> None:
    """The server kept the transaction open for a minute, with its locks."""
    async with leaving(maxAdaptiveRetries=1) as it:
        it.server.on("commitTransaction", OVERLOADED, OVERLOADED, {})
        session = it.client.start_session()
        if place == "call":
            session.start_transaction()
            await it.insert(session)
        with pytest.raises(OperationFailure, match="rate limit exceeded"):
            await (session.commit_transaction() if place == "call" else in_a_transaction(session, place, it.insert))
        await anyio.sleep(1)
        commits = [("commitTransaction", 1)] * 2
        assert it.ends() == [*commits, ("abortTransaction", 1)] if then == "nothing" else commits
        if then == "operation":
            await it.client.admin.command("ping", session=session)
        elif then == "transaction":
            session.start_transaction()
        elif then == "end":
            await session.end_session()
        elif then == "drop":
            del session
        elif then == "close":
            await it.client.close()
        elif then == "commit":
            await session.commit_transaction()
            await session.end_session()
        await anyio.sleep(3)
        assert it.ends() == [*commits, ("commitTransaction" if then == "commit" else "abortTransaction", 1)]


async def test_a_commit_that_was_rejected_without_overload() -> None:
    async with leaving(retry_budget=0) as it:
        it.server.on("commitTransaction", *[RETRYABLE_ONLY] * 10)
        with pytest.raises(OperationFailure) as raised:
            await it.client.start_session().with_transaction(it.insert)
        assert not raised.value.may_have_been_executed
        await anyio.sleep(3)
        assert it.ends()[-1] == ("abortTransaction", 1)


@pytest.mark.parametrize(
    ("answers", "commits"),
    [([failure(18)], 1), ([OVERLOADED], 1), ([Close(), Close()], 1), ([{"ok": 1}], 2)],
    ids=["refused", "overload", "lost", "refused a second time"],
)
async def test_a_commit_that_was_not_authenticated_again(answers: list[Answer], commits: int) -> None:
    """The server did not begin to commit, and kept the transaction open for a minute."""
    options: dict[str, Any] = {"authMechanism": "MONGODB-X509", "tls": True, "retry_budget": 0}
    deployment = replica_set()
    deployment["a:1"].on("authenticate", {"ok": 1}, *answers, {"ok": 1})
    async with leaving(deployment, **options) as it:
        it.server.on("commitTransaction", failure(391))
        session = it.client.start_session()
        with pytest.raises(PyMongoError) as raised:
            await in_a_transaction(session, "block", it.insert)
        assert not raised.value.may_have_been_executed
        await session.end_session()
        await anyio.sleep(3)
        assert it.ends() == [*[("commitTransaction", 1)] * commits, ("abortTransaction", 1)]


class Slow(RetryStrategy):
    """Takes its time."""

    scope = "decides"

    async def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
        await anyio.sleep(5)
        return RetryAction.no_retry()


@asynccontextmanager
async def cancelled_after_a_refusal(step: str, name: str) -> AsyncIterator[Leaving]:
    """A second after a server has refused a command, the task is cancelled. At that time, it is in `step`."""
    deployment, options = replica_set(), dict[str, Any]()
    if step == "strategy":
        options, answer = {"retry_strategy": Slow()}, OVERLOADED
    else:
        options, answer = {"authMechanism": "MONGODB-X509", "tls": True}, failure(391)
        deployment["a:1"].on("authenticate", {"ok": 1}, Hang(), {"ok": 1})
    async with leaving(deployment, **options) as it:
        it.server.on(name, answer)
        it.server.on("abortTransaction", NO_SUCH_TRANSACTION)
        with anyio.move_on_after(1) as scope:
            async with it.session.start_transaction():
                await it.insert()
        assert scope.cancelled_caught
        yield it


STEPS = pytest.mark.parametrize("step", ["strategy", "authentication"])


@STEPS
async def test_a_commit_that_was_cancelled_after_its_refusal(step: str) -> None:
    """The server did not begin to commit, and kept the transaction open for a minute."""
    async with cancelled_after_a_refusal(step, "commitTransaction") as it:
        await it.session.end_session()
        await anyio.sleep(60)
        assert it.ends() == [("commitTransaction", 1), ("abortTransaction", 1)]


@STEPS
async def test_a_first_command_that_was_cancelled_after_its_refusal(step: str) -> None:
    async with cancelled_after_a_refusal(step, "insert") as it:
        await anyio.sleep(60)
        assert len(it.ends()) == 1, "the server has replied, so it begins no transaction after the abort"


@pytest.mark.parametrize("unknown", [failure(6, "RetryableWriteError"), Close()], ids=["answered", "lost"])
async def test_a_commit_that_was_rejected_after_an_unknown_one_is_not_aborted(unknown: Answer) -> None:
    async with leaving() as it:
        it.server.on("commitTransaction", unknown, OVERLOADED)
        with pytest.raises(PyMongoError) as raised:
            await it.session.with_transaction(it.insert)
        assert raised.value.may_have_been_executed
        await it.session.end_session()
        await anyio.sleep(60)
        assert {name for name, _ in it.ends()} == {"commitTransaction"}


async def test_with_transaction_leaves_a_commit_of_unknown_result_that_was_not_sent() -> None:
    """As its label says, the application may commit again."""
    async with leaving(maxPoolSize=1, waitQueueTimeoutMS=100, retry_budget=0) as it:
        it.server.on("find", Reply({"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}, 2.0))

        async def work(session: AsyncClientSession[Any]) -> None:
            await it.insert(session)
            it.background.start_soon(it.coll.find_one)  # has the only connection for two seconds
            await anyio.sleep(0.5)

        with pytest.raises(PyMongoError) as raised:
            await it.session.with_transaction(work)
        assert raised.value.has_error_label("UnknownTransactionCommitResult")
        await anyio.sleep(3)
        assert it.ends() == []
        await it.session.commit_transaction()
        assert it.ends() == [("commitTransaction", 1)]


async def test_a_commit_that_is_cancelled_in_the_backoff_after_a_rejection(it: Leaving) -> None:
    it.server.on("commitTransaction", OVERLOADED)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(it.session.with_transaction, it.insert)
        await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()
    await anyio.sleep(1)
    assert it.ends() == [("commitTransaction", 1), ("abortTransaction", 1)]


# --- aborts that fail ---


@pytest.mark.parametrize("how", ["call", "block", "session", "cancelled"])
@pytest.mark.parametrize(
    "answers",
    [
        [OVERLOADED] * 6,
        [RETRYABLE_ONLY] * 6,
        [failure(391)],
        [Close()] * 2,
        [failure(6, "RetryableWriteError")] * 2,
    ],
    ids=["overloaded", "retryable", "not authenticated", "closed", "unreachable"],
)
async def test_an_abort_that_fails_is_repeated(it: Leaving, answers: list[Answer], how: str) -> None:
    it.server.on("abortTransaction", *answers, {})
    if how in ("call", "session"):
        await it.begin()
        await (it.session.abort_transaction() if how == "call" else it.session.end_session())
    else:
        with anyio.move_on_after(1), suppress(ZeroDivisionError):
            async with it.session.start_transaction():
                await it.insert()
                if how == "cancelled":
                    await anyio.sleep(100)
                raise ZeroDivisionError
    await anyio.sleep(60)
    assert len(it.ends()) == len(answers) + 1
    assert it.server.received[-1].name == "abortTransaction"


@pytest.mark.parametrize(
    "options", [{"waitQueueTimeoutMS": 100}, {"wait_queue": WaitQueue(strategy="queue", max_depth=1)}], ids=str
)
async def test_an_abort_that_gets_no_connection_is_repeated(options: dict[str, Any]) -> None:
    async with leaving(maxPoolSize=1, **options) as it:
        it.server.on("find", Reply({"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}, 5.0))
        sessions = [it.client.start_session() for _ in range(7)]
        for session in sessions:
            session.start_transaction()
            await it.insert(session)
        it.background.start_soon(it.coll.find_one)
        await anyio.sleep(0.01)
        async with anyio.create_task_group() as tasks:
            for session in sessions:
                tasks.start_soon(session.end_session)
        await anyio.sleep(60)
        assert len(it.ends()) == 7


@pytest.mark.parametrize("step", [Part.leave, Session.end_turn])
async def test_an_interrupt_at_the_end_of_an_operation_blocks_no_later_one(
    it: Leaving, step: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(subject: Any) -> None:
        step(subject)
        raise KeyboardInterrupt

    it.session.start_transaction()
    with monkeypatch.context() as patch:
        patch.setattr(Part if step is Part.leave else Session, step.__name__, interrupted)
        with pytest.raises(KeyboardInterrupt):
            await it.insert()
    await it.session.abort_transaction()
    it.session.start_transaction()
    with anyio.fail_after(1):
        await it.insert()
    await it.session.abort_transaction()
    assert len(it.server.commands("abortTransaction")) == 2


async def test_an_abort_that_fails_for_ever_is_given_up(it: Leaving) -> None:
    it.server.on("abortTransaction", OVERLOADED)
    await it.begin()
    await it.session.abort_transaction()
    await anyio.sleep(200)
    assert len(it.ends()) == 6 * 5


async def test_an_abort_that_the_server_refuses_is_not_repeated(it: Leaving) -> None:
    it.server.on("abortTransaction", failure(251))
    await it.begin()
    await it.session.abort_transaction()
    await anyio.sleep(60)
    assert len(it.ends()) == 1


async def leave_the_first_command(it: Leaving, how: str) -> None:
    """Leave a transaction during its first command, which is cancelled or runs into its own time limit."""
    with anyio.move_on_after(0.5 if how == "cancelled" else inf), suppress(PyMongoError):
        async with it.session.start_transaction():
            await it.coll.insert_one({}, session=it.session, timeoutMS=500 if how == "failed" else 0)


@pytest.mark.parametrize("first", [SLOW, Hang(), Close()], ids=["slow", "silent", "closed"])
@pytest.mark.parametrize("how", ["cancelled", "failed"])
async def test_an_abort_that_overtakes_the_first_command_is_repeated(it: Leaving, first: Answer, how: str) -> None:
    """It goes over another connection. The server then begins the transaction after the abort."""
    it.server.on("insert", first)
    it.server.on("abortTransaction", NO_SUCH_TRANSACTION, {})
    await leave_the_first_command(it, how)
    await anyio.sleep(60)
    assert it.ends() == [("abortTransaction", 1)] * 2


@pytest.mark.parametrize("answer", [{"n": 1}, failure(112, "TransientTransactionError")], ids=["begun", "failed"])
async def test_an_abort_after_a_reply_to_the_first_command_is_not_repeated(it: Leaving, answer: Answer) -> None:
    it.server.on("insert", answer, SLOW)
    it.server.on("abortTransaction", NO_SUCH_TRANSACTION)
    with anyio.move_on_after(0.5):
        async with it.session.start_transaction():
            with suppress(PyMongoError):
                await it.insert()
            await it.insert()
    await anyio.sleep(60)
    assert len(it.ends()) == 1


@pytest.mark.parametrize("place", ["block", "with_transaction"])
async def test_a_commit_that_overtakes_the_first_command_is_followed_by_aborts(it: Leaving, place: str) -> None:
    """The program goes on after a timeout. The server then begins the transaction after the commit."""
    it.server.on("commitTransaction", NO_SUCH_TRANSACTION)
    it.server.on("abortTransaction", NO_SUCH_TRANSACTION, {})

    async def work(session: AsyncClientSession[Any]) -> None:
        it.server.on("insert", SLOW)
        with anyio.move_on_after(0.5):
            await it.insert(session)

    with anyio.move_on_after(0.6), suppress(PyMongoError):
        await in_a_transaction(it.session, place, work)
    await it.session.end_session()
    await anyio.sleep(60)
    assert [one for one in it.ends() if one[1] == 1] == [("commitTransaction", 1), *[("abortTransaction", 1)] * 2]


@pytest.mark.parametrize("how", ["cancelled", "failed"])
async def test_an_abort_is_repeated_on_the_mongos_that_got_the_first_command(how: str) -> None:
    """Another one does not know the transaction, and no reply had a recovery token that would tell it."""
    async with leaving(ScriptedDeployment(["a:1", "b:1"], mongos=True)) as it:
        it.on("insert", SLOW)
        it.on("abortTransaction", NO_SUCH_TRANSACTION)
        await leave_the_first_command(it, how)
        await anyio.sleep(0.1)
        (first,) = (each for each in it.deployment.servers.values() if each.commands("insert"))
        before = len(first.commands("abortTransaction"))
        # It is busy, so that anything else goes to the other one.
        first.on("find", Hang())
        for _ in range(4):
            it.background.start_soon(it.coll.find_one)
        await anyio.sleep(40)
        assert len(first.commands("abortTransaction")) - before == 4
        it.background.cancel_scope.cancel()


@pytest.mark.parametrize("how", ["cancelled", "failed"])
async def test_an_abort_behind_a_load_balancer_is_not_repeated(how: str) -> None:
    """It goes to another service. The one that got the first command has lost its connection, and aborts by itself."""
    async with leaving(ScriptedDeployment(["lb:1"], services=2)) as it:
        it.on("insert", SLOW)
        it.on("abortTransaction", NO_SUCH_TRANSACTION)
        await leave_the_first_command(it, how)
        await anyio.sleep(60)
        assert it.names.count("abortTransaction") == 1


async def test_close_repeats_an_abort_that_overtook_the_first_command(it: Leaving) -> None:
    it.server.on("insert", SLOW)
    it.server.on("abortTransaction", NO_SUCH_TRANSACTION, {})
    with anyio.move_on_after(0.5):
        async with it.session.start_transaction():
            await it.insert()
    await anyio.sleep(0.1)
    await it.client.close()
    assert it.ends() == [("abortTransaction", 1)] * 2


# --- closing the client ---


async def test_close_aborts_open_transactions(it: Leaving) -> None:
    sessions = [it.client.start_session() for _ in range(3)]
    for session in sessions:
        await it.begin(session)
    await it.client.close()
    assert it.ends() == [("abortTransaction", 1)] * 3
    for session in sessions:
        await session.end_session()
        assert session.has_ended
    assert len(it.ends()) == 3


async def test_close_aborts_when_the_last_operation_has_ended(it: Leaving) -> None:
    it.server.on("insert", SLOW)
    it.background.start_soon(it.begin)
    await anyio.sleep(0.5)
    start = anyio.current_time()
    await it.client.close()
    assert it.ends() == [("abortTransaction", 1)]
    assert anyio.current_time() - start == pytest.approx(1.5, abs=0.1)


@pytest.mark.parametrize("place", [*PLACES, "dropped"])
async def test_close_aborts_what_a_task_leaves_right_after_its_last_operation(it: Leaving, place: str) -> None:
    """The task goes on before the client that closes looks again, and cannot commit."""
    it.server.on("insert", SLOW)

    async def work(session: AsyncClientSession[Any]) -> None:
        await it.insert(session)
        if "session" in place:
            await session.commit_transaction()

    async def task() -> None:
        if place == "dropped":
            await it.begin(it.client.start_session())
            return
        async with it.client.start_session() as session:
            with pytest.raises(InvalidOperation, match="closed"):
                await in_a_transaction(session, place, work)

    it.background.start_soon(task)
    await anyio.sleep(0.5)
    await it.client.close()
    assert it.ends() == [("abortTransaction", 1)]


async def test_close_repeats_an_abort_that_has_failed(it: Leaving) -> None:
    it.server.on("abortTransaction", *[OVERLOADED] * 6, {})
    await it.begin()
    await it.session.abort_transaction()
    start = anyio.current_time()
    await it.client.close()
    assert len(it.ends()) == 7
    assert anyio.current_time() - start < 0.1


@pytest.mark.parametrize("prefetch", [0, 1])
async def test_close_kills_open_cursors(it: Leaving, prefetch: int) -> None:
    it.server.on("find", *({"cursor": {**FIRST["cursor"], "id": number}} for number in range(1, 11)))
    it.server.on("getMore", lambda command: {"cursor": {**MORE["cursor"], "id": command["getMore"]}})
    cursors = [it.coll.find(prefetch=prefetch) for _ in range(10)]
    for cursor in cursors:
        await cursor.next()
    await anyio.sleep(0.1)
    await it.client.close()
    assert it.killed() == list(range(1, 11))
    for cursor in cursors:
        with pytest.raises(InvalidOperation, match="closed"):
            await cursor.to_list()
        await cursor.close()


async def test_close_kills_a_cursor_that_was_dropped_just_before(it: Leaving) -> None:
    it.server.on("find", FIRST)
    await anext(it.coll.find())
    await it.client.close()
    assert it.killed() == [7]


async def test_close_kills_cursors_whose_batch_is_on_its_way(it: Leaving) -> None:
    it.server.on("find", FIRST)
    it.server.on("getMore", Reply(MORE, 1.0))
    ahead, other = it.coll.find(prefetch=1), it.coll.find({"x": 1})
    await ahead.next()
    await anyio.sleep(0.1)
    it.server.on("find", Reply({"cursor": {**FIRST["cursor"], "id": 8}}, 0.5))
    opened: list[Any] = []

    async def read() -> None:
        opened.append(await other.next())

    it.background.start_soon(read)
    await anyio.sleep(0.1)
    await it.client.close()
    assert it.killed() == [7, 8]
    assert opened


@pytest.mark.parametrize("wait", [0.0, 0.5])
async def test_close_kills_a_cursor_whose_caller_left_before_it_opened(it: Leaving, wait: float) -> None:
    it.server.on("find", Reply(FIRST, 0.3))
    with anyio.move_on_after(0.1):
        await it.coll.find().to_list()
    await anyio.sleep(wait)
    start = anyio.current_time()
    await it.client.close()
    assert [command["cursors"] for command in it.server.commands("killCursors")] == [[7]]
    assert anyio.current_time() - start < 0.3


async def test_close_kills_a_cursor_that_a_cancelled_task_has_left(it: Leaving) -> None:
    """A program that ends does both at once. The killing needs a new connection: the pool's only one owes a reply."""
    it.server.on("find", FIRST)
    it.server.on("getMore", Hang())
    it.server.hello_delay = 0.3
    with anyio.move_on_after(1):
        await it.coll.find().to_list()
    start = anyio.current_time()
    await it.client.close()
    assert it.killed() == [7]
    assert anyio.current_time() - start == pytest.approx(0.3, abs=0.1)


async def test_close_does_not_wait_for_a_kill_on_a_server_that_is_gone(it: Leaving) -> None:
    it.server.on("find", FIRST)
    cursor = it.coll.find()
    await cursor.next()
    it.server.is_down = True
    it.server.drop_connections()
    await anyio.sleep(20)  # until its monitor notices
    del cursor
    start = anyio.current_time()
    await it.client.close()
    assert anyio.current_time() - start < 0.1


async def test_close_waits_for_no_late_reply_that_opens_no_cursor(it: Leaving) -> None:
    it.server.on("count", Hang())
    with anyio.move_on_after(0.1):
        await it.coll.estimated_document_count()
    start = anyio.current_time()
    await it.client.close()
    assert anyio.current_time() - start < 0.1


async def test_close_takes_no_longer_than_its_grace(it: Leaving) -> None:
    for name in ("abortTransaction", "killCursors"):
        it.server.on(name, Hang())
    it.server.on("find", FIRST)
    cursor = it.coll.find()
    await cursor.next()
    it.session.start_transaction()
    await it.insert()
    start = anyio.current_time()
    await it.client.close()
    assert anyio.current_time() - start <= 5.1


async def test_close_ends_the_sessions_of_open_cursors(it: Leaving) -> None:
    it.server.on("find", FIRST)
    cursor = it.coll.find()
    await cursor.next()
    (found,) = it.server.commands("find")
    await it.client.close()
    assert [one.name for one in it.server.received] == ["find", "killCursors", "endSessions"]
    (end,) = it.server.commands("endSessions")
    assert found["lsid"] in end["endSessions"]
    assert await cursor.next() == {"_id": 2}
    with pytest.raises(InvalidOperation, match="closed"):
        await cursor.next()


async def test_cursors_and_sessions_that_have_ended_are_not_kept(it: Leaving) -> None:
    it.server.on("find", FIRST)
    for _ in range(3):
        cursor = it.coll.find()
        await cursor.next()
        await cursor.close()
        del cursor
        async with it.client.start_session() as session, session.start_transaction():
            await it.insert(session)
    gc.collect()
    core = it.client._core
    assert not [one for one in core.open_cursors if one.cursor_id]
    assert not core.executor.open_transactions
    it.server.received.clear()
    await it.client.close()
    assert {one.name for one in it.server.received} == {"endSessions"}


# --- cursors of transactions, behind a load balancer ---


def connections(it: Subject, name: str) -> list[tuple[int, int]]:
    """The service and the connection of each command of this name."""
    return [
        (number, one.connection)
        for number, service in enumerate(it.deployment.services)
        for one in service.received
        if one.name == name
    ]


def open_streams(it: Subject) -> set[Any]:
    return {stream for service in it.deployment.services for stream in service.open_connections}


@asynccontextmanager
async def balanced() -> AsyncIterator[Leaving]:
    """Two services, where cursors stay open."""
    async with leaving(ScriptedDeployment(["lb:1"], services=2), loadBalanced=True) as it:
        it.on("find", FIRST)
        yield it


async def wait_for_the_kill(seconds: float = 1.0) -> None:
    gc.collect()
    await anyio.sleep(seconds)


@pytest.mark.parametrize("how", ["close", "drop", "cancelled"])
@pytest.mark.parametrize("when", ["in progress", "busy", "committed", "aborted", "next", "ended"])
async def test_the_cursor_of_a_transaction_is_killed_on_its_connection_or_that_closes(when: str, how: str) -> None:
    async with balanced() as it:
        it.on("insert", {"n": 1}, {"n": 1}, SLOW)
        it.on("killCursors", Hang() if how == "cancelled" else {"cursorsKilled": [7]})
        it.session.start_transaction()
        cursor = it.coll.find(session=it.session)
        await cursor.next()
        await it.insert()
        await it.insert()
        (place,), streams = connections(it, "find"), open_streams(it)
        if when == "busy":
            it.background.start_soon(it.insert)
            await anyio.sleep(0.1)
        elif when == "committed":
            await it.session.commit_transaction()
        elif when in ("aborted", "next"):
            await it.session.abort_transaction()
        elif when == "ended":
            await it.session.end_session()
        if when == "next":
            it.session.start_transaction()
            await it.coll.find_one(session=it.session)
        if how == "drop":
            del cursor
        else:
            with anyio.move_on_after(0.5):
                await cursor.close()
        await wait_for_the_kill(3)
        kills = connections(it, "killCursors")
        assert kills == ([place] if when == "in progress" and how != "drop" else [])
        await it.session.end_session()
        await wait_for_the_kill()
        lost = streams - open_streams(it)
        assert len(lost) == (0 if kills and how == "close" else 1), "its end ends a cursor that was not killed"


async def test_the_connection_of_a_transaction_whose_cursors_have_ended_is_kept() -> None:
    async with balanced() as it:
        it.on("getMore", {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": []}})
        async with it.session.start_transaction():
            assert len(await it.coll.find(session=it.session).to_list()) == 2
        streams = open_streams(it)
        await it.session.end_session()
        await wait_for_the_kill()
        assert open_streams(it) >= streams


@pytest.mark.parametrize(
    "reply", [{"cursorsKilled": 7}, {"cursorsKilled": [{}]}, {"cursor": 7}, {"cursor": {"id": "x"}}]
)
async def test_odd_replies_about_cursors(reply: dict[str, Any]) -> None:
    async with balanced() as it:
        it.on("killCursors", reply)
        async with it.session.start_transaction():
            cursor = it.coll.find(session=it.session)
            await cursor.next()
            await cursor.close()
        assert not connections(it, "abortTransaction")
