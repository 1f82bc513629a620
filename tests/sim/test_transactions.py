"""Transactions on the one path of every command: their fields, retries, labels, pins, and what outlives them."""

from __future__ import annotations

import asyncio
import contextvars
import types
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import sniffio
from bson.timestamp import Timestamp

from motorlite import ReadConcern, WriteConcern, call_options
from motorlite._api.session import bound_session
from motorlite.client_session import TransactionOptions
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    ConnectionFailure,
    InvalidOperation,
    NetworkTimeout,
    OperationFailure,
    PoolClearedError,
    PyMongoError,
    RateLimitError,
    ServerSelectionTimeoutError,
    WriteConcernError,
)
from motorlite.overload import RateLimit, WaitQueue
from motorlite.retry import BestEffort, RetryReason
from motorlite.testing.scripted import Close, Hang, Reply, ScriptedDeployment, failure
from tests.support.core import HOST_UNREACHABLE, OVERLOADED, OVERLOADED_ONLY, RETRYABLE_ONLY
from tests.support.transactions import (
    PLACES,
    REJECTED,
    Subject,
    carried,
    in_a_transaction,
    in_use,
    numbered,
    replica_set,
    subject,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator

    from motorlite import AsyncClientSession
    from motorlite.testing.scripted import Answer, ScriptedServer

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

TRANSIENT, UNKNOWN = "TransientTransactionError", "UnknownTransactionCommitResult"
MAJORITY = {"w": "majority", "wtimeout": 10_000}
FIRST_OF_TWO = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}
LAST_BUT_ONE = {"cursor": {"id": 7, "ns": "db.coll", "nextBatch": [{"_id": 2}]}}
LAST = {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": [{"_id": 2}]}}


# --- fields ---


@pytest.fixture
async def it() -> AsyncIterator[Subject]:
    async with subject() as made:
        yield made


async def lose_the_server(it: Subject) -> None:
    """Wait until the client knows that there is none."""
    it.server.is_down = True
    it.server.drop_connections()
    await anyio.sleep(12)


async def find_the_server(it: Subject) -> None:
    """Wait until the client knows that it is back."""
    it.server.is_down = False
    await anyio.sleep(20)


async def test_the_fields_of_a_transaction() -> None:
    async with subject(retryWrites=False) as it:
        it.session.start_transaction(ReadConcern("snapshot"), WriteConcern(2), max_commit_time_ms=50)
        await it.insert()
        await it.coll.find_one({}, session=it.session)
        await it.session.commit_transaction()
        start = {"txnNumber": 1, "startTransaction": True, "autocommit": False, "readConcern": {"level": "snapshot"}}
        assert carried(it.server, "insert") == [start]
        assert carried(it.server, "find") == [{"txnNumber": 1, "autocommit": False}]
        end = {"txnNumber": 1, "autocommit": False, "writeConcern": {"w": 2}}
        assert carried(it.server, "commitTransaction") == [end]
        (commit,) = it.server.commands("commitTransaction")
        assert (commit["$db"], commit["maxTimeMS"]) == ("admin", 50)
        assert it.state == "committed"
        await it.begin()
        await it.session.abort_transaction()
        assert carried(it.server, "abortTransaction") == [{"txnNumber": 2, "autocommit": False}]
        assert it.state == "aborted"


async def test_options_are_inherited_one_by_one() -> None:
    defaults = TransactionOptions(write_concern=WriteConcern(3), max_commit_time_ms=7)
    async with subject(session={"default_transaction_options": defaults}, readConcernLevel="majority", w=2) as it:
        async with it.session.start_transaction(max_commit_time_ms=9):
            await it.insert()
        async with it.session.start_transaction(ReadConcern("local"), WriteConcern("majority")):
            await it.insert()
        assert [each["readConcern"]["level"] for each in carried(it.server, "insert")] == ["majority", "local"]
        commits = it.server.commands("commitTransaction")
        assert [each["writeConcern"] for each in commits] == [{"w": 3}, {"w": "majority"}]
        assert [each["maxTimeMS"] for each in commits] == [9, 7]


async def test_concerns_of_collections_do_not_apply() -> None:
    async with subject(w=2, readConcernLevel="local") as it:
        coll = it.coll.with_options(write_concern=WriteConcern(3), read_concern=ReadConcern("majority"))
        it.session.start_transaction(ReadConcern("snapshot"), WriteConcern(1))
        for _ in range(2):
            await coll.find_one({}, session=it.session)
            await coll.aggregate([{"$out": "x"}], session=it.session)
            await coll.insert_many([{}], session=it.session)
        await it.client.db.command({"ping": 1, "readConcern": {"level": "local"}}, session=it.session)
        found = [carried(it.server, name) for name in ("find", "aggregate", "insert")]
        assert found[0][0]["readConcern"] == {"level": "snapshot"}
        later = [found[0][1], *found[1], *found[2]]
        assert all("readConcern" not in each and "writeConcern" not in each for each in later)
        assert carried(it.server, "ping")[0]["readConcern"] == {"level": "local"}, "it is not inspected"


@pytest.mark.parametrize("causal", [True, False])
async def test_the_first_command_waits_for_what_the_session_has_seen(causal: bool) -> None:
    async with subject(session={"causal_consistency": causal}) as it:
        it.session.advance_operation_time(Timestamp(5, 1))
        it.session.start_transaction(ReadConcern("snapshot"))
        await it.insert()
        await it.insert()
        first, second = carried(it.server, "insert")
        after = {"afterClusterTime": Timestamp(5, 1)} if causal else {}
        assert first["readConcern"] == {"level": "snapshot", **after}
        assert "readConcern" not in second
        await it.session.commit_transaction()
        await it.insert()
        assert carried(it.server, "insert")[-1].get("readConcern") == (after or None)


async def test_nothing_is_sent_for_an_empty_transaction(it: Subject) -> None:
    it.session.start_transaction()
    await it.session.commit_transaction()
    await it.session.commit_transaction()
    it.session.start_transaction()
    await it.session.abort_transaction()
    assert not it.server.received
    await it.begin()
    assert numbered(it.server) == [("insert", 3)]


async def test_a_command_that_cannot_be_encoded_begins_nothing(it: Subject) -> None:
    it.session.start_transaction()
    with pytest.raises(Exception, match="cannot encode object"):
        await it.insert(x=object())
    assert it.state == "starting"
    await it.insert()
    with pytest.raises(Exception, match="cannot encode object"):
        await it.insert(x=object())
    assert it.state == "in progress"
    await it.session.commit_transaction()
    assert [each.get("startTransaction") for each in carried(it.server, "insert")] == [True]


async def test_any_operation_after_the_end_is_on_its_own(it: Subject) -> None:
    await it.begin()
    await it.session.commit_transaction()
    await it.insert()
    assert it.state == "none"
    for end in (it.session.commit_transaction, it.session.abort_transaction):
        with pytest.raises(InvalidOperation, match="No transaction started"):
            await end()
    # Number 2 is that of a retryable write.
    found = [(each["txnNumber"], "autocommit" in each) for each in carried(it.server, "insert")]
    assert found == [(1, True), (2, False)]


async def test_unacknowledged_writes() -> None:
    async with subject() as it:
        coll = it.coll.with_options(write_concern=WriteConcern(0))
        it.session.start_transaction()
        assert (await coll.insert_one({}, session=it.session)).acknowledged
        assert (await coll.insert_many([{}], session=it.session)).acknowledged
        assert (await coll.update_one({}, {"$set": {"x": 1}}, session=it.session)).acknowledged
        assert (await coll.delete_one({}, session=it.session)).acknowledged
        await coll.find_one_and_delete({}, session=it.session)
        assert all("writeConcern" not in each for each in it.server.commands())
    async with subject(w=0) as it:
        with pytest.raises(ConfigurationError, match="unacknowledged write concern: "):
            it.session.start_transaction()


async def test_a_collection_is_created_without_a_look_at_the_others(it: Subject) -> None:
    it.session.start_transaction()
    await it.client.db.create_collection("new", session=it.session)
    assert it.names == ["create"]


# --- one operation after the other ---


async def test_operations_at_the_same_time_are_refused(it: Subject) -> None:
    it.server.on("insert", Reply({"n": 1}, 1.0))
    it.server.on("commitTransaction", Reply({}, 1.0))

    async def find() -> None:
        await it.coll.find(session=it.session).to_list()

    it.session.start_transaction()
    refused = [it.insert, find, it.session.commit_transaction, it.session.abort_transaction]
    for running in (it.insert, it.session.commit_transaction):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running)
            await anyio.sleep(0.1)
            for call in refused if running == it.insert else [it.insert]:
                with pytest.raises(InvalidOperation, match="must run one after another"):
                    await call()
            assert it.session.in_transaction is (running == it.insert)
            with pytest.raises(InvalidOperation, match=r"must run one after another|already in progress"):
                it.session.start_transaction()
    assert it.names == ["insert", "commitTransaction"]


async def test_closing_a_cursor_neither_begins_nor_ends_a_transaction(it: Subject) -> None:
    it.server.on("find", FIRST_OF_TWO)
    outside = await it.coll.find(session=it.session)
    it.session.start_transaction()
    await outside.close()
    assert it.state == "starting"
    assert carried(it.server, "killCursors") == [{}]
    inside = await it.coll.find(session=it.session)
    await inside.close()
    assert carried(it.server, "killCursors")[1] == {"txnNumber": 1, "autocommit": False}
    late = await it.coll.find(session=it.session)
    await it.session.commit_transaction()
    await late.close()
    assert it.state == "committed"
    assert carried(it.server, "killCursors")[2] == {}
    await it.session.commit_transaction()


async def test_a_cursor_is_closed_while_another_operation_runs(it: Subject) -> None:
    it.server.on("find", FIRST_OF_TWO)
    it.server.on("insert", Reply({"n": 1}, 1.0))
    it.session.start_transaction()
    cursor = await it.coll.find(session=it.session)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(it.insert)
        await anyio.sleep(0.1)
        await cursor.close()
    assert carried(it.server, "killCursors") == [{}]
    await it.session.commit_transaction()


# --- retries ---


@pytest.mark.parametrize("answer", [HOST_UNREACHABLE, failure(11600, "RetryableWriteError"), Close()])
@pytest.mark.parametrize("name", ["insert", "find"])
async def test_ordinary_retries_are_off(it: Subject, answer: Answer, name: str) -> None:
    it.session.start_transaction()
    it.server.on(name, answer)
    with pytest.raises(PyMongoError) as raised:
        await (it.insert() if name == "insert" else it.coll.find_one({}, session=it.session))
    assert len(it.server.commands(name)) == 1
    assert raised.value.has_error_label(TRANSIENT) is isinstance(answer, Close)
    labels = {"RetryableWriteError"} if isinstance(answer, dict) else {TRANSIENT}
    assert raised.value.error_labels == labels, "the driver adds no RetryableWriteError"


async def test_strategies_cannot_repeat_what_may_have_happened() -> None:
    async with subject(retry_strategy=BestEffort()) as it:
        it.session.start_transaction()
        it.server.on("find", Close())
        with pytest.raises(AutoReconnect):
            await it.coll.find_one({}, session=it.session)
        assert len(it.server.commands("find")) == 1
        await it.session.abort_transaction()
        await it.begin()
        # Nothing has happened, so the strategy may decide. The transaction goes on.
        it.server.on("find", failure(462, "RetryableError"), {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}})
        await it.coll.find_one({}, session=it.session)
        await it.session.commit_transaction()


@pytest.mark.parametrize("rejection", [OVERLOADED, RETRYABLE_ONLY])
async def test_a_first_command_that_was_rejected_is_first_again(it: Subject, rejection: Answer) -> None:
    it.server.on("insert", rejection, rejection, {"n": 1})
    await it.begin()
    it.server.on("insert", rejection, {"n": 1})
    await it.insert()
    it.server.on("commitTransaction", OVERLOADED, {})
    await it.session.commit_transaction()
    found = carried(it.server, "insert")
    assert [each.get("startTransaction") for each in found] == [True, True, True, None, None]
    assert {each["txnNumber"] for each in it.server.commands()} == {1}
    assert [each.get("writeConcern") for each in carried(it.server, "commitTransaction")] == [None, None]


async def test_a_first_command_that_is_rejected_for_good() -> None:
    """By the specification, the transaction is in progress then, and the server will refuse what follows."""
    async with subject(maxAdaptiveRetries=1) as it:
        it.server.on("insert", OVERLOADED)
        it.session.start_transaction()
        error = await it.fails()
        assert error.error_labels == {"SystemOverloadedError", "RetryableError"}
        assert it.state == "in progress"
        await it.session.abort_transaction()
        assert it.names == ["insert", "insert", "abortTransaction"]


async def test_overload_alone_is_no_rejection(it: Subject) -> None:
    await it.begin()
    it.server.on("commitTransaction", OVERLOADED_ONLY, {})
    await it.fails(it.session.commit_transaction)
    await it.session.commit_transaction()
    assert [each.get("writeConcern") for each in carried(it.server, "commitTransaction")] == [None, MAJORITY]


COMMITS: list[tuple[list[Answer], list[dict[str, Any] | None]]] = [
    ([HOST_UNREACHABLE, {}], [None, MAJORITY]),
    ([Close(), {}], [None, MAJORITY]),
    ([OVERLOADED, OVERLOADED, {}], [None, None, None]),
    ([OVERLOADED, HOST_UNREACHABLE, {}], [None, None, MAJORITY]),
    ([HOST_UNREACHABLE, OVERLOADED, {}], [None, MAJORITY, MAJORITY]),
    (
        [{"writeConcernError": {"code": 91, "errmsg": "x"}, "errorLabels": ["RetryableWriteError"]}, {}],
        [None, MAJORITY],
    ),
]


@pytest.mark.parametrize("retries", [True, False])
@pytest.mark.parametrize(("answers", "concerns"), COMMITS)
async def test_a_commit_is_retried_whatever_the_options_say(
    answers: list[Answer], concerns: list[dict[str, Any] | None], retries: bool
) -> None:
    async with subject(retryReads=retries, retryWrites=retries) as it:
        await it.begin()
        it.server.on("commitTransaction", *answers)
        await it.session.commit_transaction()
        assert [each.get("writeConcern") for each in carried(it.server, "commitTransaction")] == concerns


@pytest.mark.parametrize("retries", [True, False])
@pytest.mark.parametrize("answer", [HOST_UNREACHABLE, Close(), OVERLOADED])
async def test_an_abort_is_retried_whatever_the_options_say(answer: Answer, retries: bool) -> None:
    async with subject(w=2, retryReads=retries, retryWrites=retries) as it:
        await it.begin()
        it.server.on("abortTransaction", answer, {})
        await it.session.abort_transaction()
        assert [each.get("writeConcern") for each in carried(it.server, "abortTransaction")] == [{"w": 2}] * 2


@pytest.mark.parametrize("how", ["call", "cancelled"])
@pytest.mark.parametrize("answer", [HOST_UNREACHABLE, failure(251), Close(), {"writeConcernError": {"code": 64}}])
async def test_errors_of_an_abort_are_ignored(it: Subject, answer: Answer, how: str) -> None:
    it.server.on("abortTransaction", answer)
    if how == "cancelled":
        with anyio.move_on_after(1):
            async with it.session.start_transaction():
                await it.insert()
                await anyio.sleep(100)
    else:
        await it.begin()
        await it.session.abort_transaction()
    assert it.state == "aborted"
    with pytest.raises(InvalidOperation, match="twice"):
        await it.session.abort_transaction()
    with pytest.raises(InvalidOperation, match="after calling abortTransaction"):
        await it.session.commit_transaction()
    async with it.session.start_transaction():
        await it.insert()
    await anyio.sleep(1)
    assert sorted(set(it.ends())) == [("abortTransaction", 1), ("commitTransaction", 2)]


async def test_a_commit_again(it: Subject) -> None:
    it.session.start_transaction(write_concern=WriteConcern(1, wtimeout=5))
    await it.insert()
    for _ in range(3):
        await it.session.commit_transaction()
    concerns = [each["writeConcern"] for each in carried(it.server, "commitTransaction")]
    assert concerns == [{"w": 1, "wtimeout": 5}, *[{"w": "majority", "wtimeout": 5}] * 2]
    with pytest.raises(InvalidOperation, match="Cannot call abortTransaction after calling commitTransaction"):
        await it.session.abort_transaction()


@pytest.mark.parametrize("is_known_to_be_lost", [True, False])
async def test_a_commit_after_one_that_was_not_sent(is_known_to_be_lost: bool) -> None:
    async with subject(serverSelectionTimeoutMS=100 if is_known_to_be_lost else 30_000) as it:
        await it.begin()
        it.server.is_down = True
        it.server.drop_connections()
        if is_known_to_be_lost:
            await anyio.sleep(12)
        error = await it.fails(it.session.commit_transaction)
        assert isinstance(error, ServerSelectionTimeoutError) is is_known_to_be_lost
        labels = set() if is_known_to_be_lost else {"SystemOverloadedError", "RetryableError", "RetryableWriteError"}
        assert error.error_labels == {UNKNOWN, *labels}
        await find_the_server(it)
        await it.session.commit_transaction()
        # A connection that cannot be made is like a rejection, after which nothing can have been committed.
        concern = {"writeConcern": MAJORITY} if is_known_to_be_lost else {}
        assert carried(it.server, "commitTransaction") == [{"txnNumber": 1, "autocommit": False, **concern}]


async def test_a_rejection_after_another_error_does_not_take_the_majority_back() -> None:
    """A mongos fails, the other refuses a connection, which counts as a rejection, and the first one succeeds."""
    deployment = sharded()
    a, b = deployment["a:1"], deployment["b:1"]
    b.is_down = True
    async with subject(deployment) as it:
        await it.begin()
        b.is_down = False
        await anyio.sleep(20)
        b.is_down = True  # the monitor keeps its connection, so it looks well
        a.on("commitTransaction", HOST_UNREACHABLE, {})
        await it.session.commit_transaction()
        assert it.client.stats().retries == {RetryReason.TEMPORARY_FAILURE: 1, RetryReason.SERVER_NOT_AVAILABLE: 1}
        assert [each.get("writeConcern") for each in carried(a, "commitTransaction")] == [None, MAJORITY]


# --- labels ---


async def test_the_labels_of_a_server_that_adds_none() -> None:
    async with subject(replica_set(wire_version=8)) as it:
        await it.begin()
        it.server.on("commitTransaction", failure(91))
        assert (await it.fails(it.session.commit_transaction)).error_labels == {UNKNOWN, "RetryableWriteError"}
        assert len(it.server.commands("commitTransaction")) == 2
        await it.begin()
        it.server.on("insert", failure(91))
        assert (await it.fails()).error_labels == frozenset()


async def test_a_first_operation_without_a_server_begins_nothing() -> None:
    async with subject(serverSelectionTimeoutMS=100) as it:
        await lose_the_server(it)
        it.session.start_transaction()
        error = await it.fails()
        assert isinstance(error, ServerSelectionTimeoutError)
        assert error.error_labels == {TRANSIENT}
        assert it.state == "starting"
        await find_the_server(it)
        await it.insert()
        await it.session.commit_transaction()
        assert carried(it.server, "insert")[0]["startTransaction"]


async def test_what_the_client_refuses_is_transient() -> None:
    async with subject(rate_limit=RateLimit(rate=1, burst=2)) as it:
        await it.begin()
        assert isinstance(await it.fails(), RateLimitError)
        error = await it.fails()
        assert error.error_labels == {TRANSIENT}
        assert not error.reached_server
        # It continues what was admitted.
        await it.session.commit_transaction()


async def test_a_degraded_answer_has_no_place_in_a_transaction() -> None:
    queue = WaitQueue(strategy="degrade")
    async with subject(maxPoolSize=1, wait_queue=queue) as it:
        it.server.on("insert", Reply({"n": 1}, 1.0))
        it.session.start_transaction()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.coll.insert_one, {})
            await anyio.sleep(0.1)
            with call_options(fallback=lambda _: {"x": 1}):
                with pytest.raises(ConnectionFailure):
                    await it.coll.find_one({}, session=it.session)
                assert await it.coll.find_one({}) == {"x": 1}


# --- the end of a session, cancellation ---


async def test_the_end_of_the_session_aborts(it: Subject) -> None:
    await it.begin()
    await it.session.end_session()
    await it.session.end_session()
    assert it.names == ["insert", "abortTransaction"]
    assert it.session.has_ended
    assert len(it.client._core.sessions) == 1


@pytest.mark.parametrize("how", ["no transaction", "end of the session", "cancelled block"])
async def test_nothing_to_abort(it: Subject, how: str) -> None:
    await it.insert()
    if how == "cancelled block":
        with anyio.move_on_after(1) as scope:
            async with it.session.start_transaction():
                await anyio.sleep(100)
        assert scope.cancelled_caught
        assert it.state == "aborted"
    elif how == "end of the session":
        it.session.start_transaction()
    await it.session.end_session()
    assert it.names == ["insert"]
    assert len(it.client._core.sessions) == 1


@pytest.mark.parametrize("is_balanced", [False, True], ids=["replica set", "load-balanced"])
@pytest.mark.parametrize(
    ("state", "end", "kept"),
    [("none", [], 1), ("in progress", ["abortTransaction"], 0), ("committed", ["commitTransaction"], 1)],
)
async def test_a_dropped_session(state: str, end: list[str], kept: int, is_balanced: bool) -> None:
    """Its transaction is aborted in the background, and its connection returned."""
    async with subject(ScriptedDeployment(["lb:1"], services=2) if is_balanced else None) as it:
        session = it.client.start_session()
        await (it.insert(session) if state == "none" else it.begin(session))
        if state == "committed":
            await session.commit_transaction()
        assert in_use(it.client) == (is_balanced and state != "none")
        del session
        await anyio.sleep(1)
        assert in_use(it.client) == 0
        assert it.names == ["insert", *end]
        assert len(it.client._core.sessions) == kept


@pytest.mark.parametrize("answer", [{"n": 1}, Hang()])
async def test_a_cancelled_block_is_aborted_in_the_background(it: Subject, answer: Answer) -> None:
    await it.insert()
    it.server.on("find", answer)
    with anyio.move_on_after(1) as scope:
        async with it.session.start_transaction():
            await it.insert()
            if isinstance(answer, Hang):
                await it.coll.find_one({}, session=it.session)
            await anyio.sleep(100)
    assert scope.cancelled_caught
    await anyio.sleep(2)
    assert [name for name, _ in numbered(it.server)][-1] == "abortTransaction"
    # The session can be used again at once.
    await it.begin()
    await it.session.commit_transaction()
    assert numbered(it.server)[-1] == ("commitTransaction", 3)


@pytest.mark.parametrize("place", PLACES)
async def test_a_task_that_is_cancelled_once_waits_for_no_abort(place: str) -> None:
    """asyncio cancels a task once. It would wait for a server that does not answer, and nothing would end that."""
    if sniffio.current_async_library() != "asyncio":
        pytest.skip("trio cancels all that a task awaits")
    async with subject() as it:
        it.server.on("abortTransaction", Hang())
        session = it.client.start_session()

        async def work(session: AsyncClientSession[Any]) -> None:
            await it.insert(session)
            await anyio.sleep(100)

        start = anyio.current_time()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_a_transaction(session, place, work), 1)
        assert anyio.current_time() - start == pytest.approx(1)
        assert not session.in_transaction
        await anyio.sleep(1)
        assert numbered(it.server) == [("insert", 1), ("abortTransaction", 1)]
        await anyio.sleep(20)  # until the driver gives it up


async def test_a_coroutine_that_is_closed_in_a_transaction(it: Subject) -> None:
    """So ends a task whose event loop stops; a coroutine that awaits then raises RuntimeError."""

    @types.coroutine
    def suspended() -> Generator[None, None, None]:
        yield

    async def block() -> None:
        async with it.session.start_transaction():
            await suspended()

    it.server.on("abortTransaction", Reply({}, 0.5))
    coroutine = block()
    coroutine.send(None)
    await it.insert()
    coroutine.close()
    await anyio.sleep(1)
    assert numbered(it.server) == [("insert", 1), ("abortTransaction", 1)]


async def test_the_session_ends_while_its_transaction_is_aborted(it: Subject) -> None:
    it.server.on("abortTransaction", Reply({}, 5.0))
    await it.begin()
    with anyio.move_on_after(2) as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.session.abort_transaction)
            await anyio.sleep(1)
            await it.session.end_session()
    assert scope.cancelled_caught


async def test_the_error_of_a_block_whose_client_was_closed(it: Subject) -> None:
    async def block() -> None:
        async with it.session.start_transaction():
            await it.insert()
            await it.client.close()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await block()


# --- the block ---


async def test_the_block_commits_or_aborts(it: Subject) -> None:
    async def failing() -> None:
        async with it.session.start_transaction():
            await it.insert()
            raise ZeroDivisionError

    async with it.session.start_transaction() as block:
        assert await block is block
        await it.insert()
    async with await it.session.start_transaction():
        await it.insert()
    with pytest.raises(ZeroDivisionError):
        await failing()
    async with it.session.start_transaction():
        await it.insert()
        await it.session.abort_transaction()
    assert [name for name, _ in it.ends()] == ["commitTransaction"] * 2 + ["abortTransaction"] * 2


# --- sharded clusters ---


def sharded() -> ScriptedDeployment:
    return ScriptedDeployment(["a:1", "b:1"], mongos=True)


def pinned(it: Subject) -> tuple[ScriptedServer, ScriptedServer]:
    """The mongos that has the transaction, and the other one."""
    address = it.session._state.started_transaction().address
    assert address is not None
    (other,) = (each for each in it.deployment.servers.values() if each.address != address)
    return it.deployment.servers[address], other


async def test_all_commands_go_to_the_same_mongos() -> None:
    async with subject(sharded()) as it:
        for number, each in enumerate(it.deployment.servers.values()):
            each.on("insert", {"n": 1, "recoveryToken": {"shard": number}})
        await it.begin()
        server, other = pinned(it)
        for _ in range(20):
            await it.insert()
            assert await it.coll.find(session=it.session).to_list() == []
        await it.session.commit_transaction()
        assert pinned(it)[0] is server, "it may be committed again"
        assert len(server.commands("insert")) == 21
        token = {"shard": list(it.deployment.servers.values()).index(server)}
        assert carried(server, "commitTransaction")[0]["recoveryToken"] == token
        assert not other.received
        it.session.start_transaction()
        assert it.session._state.started_transaction().address is None
        assert it.session._state.started_transaction().recovery_token is None


# A command, the answer, whether the session stays pinned, and the labels of the error; none if there is no error.
PINNED: list[tuple[str, Answer, bool, set[str] | None]] = [
    ("insert", REJECTED, False, {TRANSIENT}),
    ("insert", Close(), False, {TRANSIENT}),
    ("insert", failure(11000), True, set()),
    ("commitTransaction", REJECTED, False, {TRANSIENT}),
    ("commitTransaction", Close(), False, {UNKNOWN, "RetryableWriteError"}),
    ("commitTransaction", failure(91, "RetryableWriteError"), False, {UNKNOWN, "RetryableWriteError"}),
    ("commitTransaction", failure(50), False, {UNKNOWN}),
    ("commitTransaction", failure(11000), True, set()),
    ("commitTransaction", {"writeConcernError": {"code": 64, "errmsg": "x"}}, False, {UNKNOWN}),
    ("commitTransaction", {"writeConcernError": {"code": 50, "errmsg": "x"}}, False, {UNKNOWN}),
    ("commitTransaction", {"writeConcernError": {"code": 100, "errmsg": "x"}}, True, set()),
    ("commitTransaction", {"writeConcernError": {"code": 79, "errmsg": "x"}}, True, set()),
    (
        "commitTransaction",
        {"writeConcernError": {"code": 91, "errmsg": "x"}, "errorLabels": ["RetryableWriteError"]},
        False,
        {UNKNOWN, "RetryableWriteError"},
    ),
    ("commitTransaction", {}, True, None),
    ("abortTransaction", {}, False, None),
    ("abortTransaction", failure(11000), False, None),
    ("abortTransaction", Close(), False, None),
]


@pytest.mark.parametrize("is_balanced", [False, True], ids=["sharded", "load-balanced"])
@pytest.mark.parametrize(("name", "answer", "is_pinned", "labels"), PINNED)
async def test_when_a_session_is_unpinned(
    name: str, answer: Answer, is_pinned: bool, labels: set[str] | None, is_balanced: bool
) -> None:
    async with subject(ScriptedDeployment(["lb:1"], services=2) if is_balanced else sharded()) as it:
        await it.begin()
        transaction = it.session._state.started_transaction()
        assert (transaction.address is None) is is_balanced
        assert in_use(it.client) == is_balanced
        it.on(name, answer)
        calls: dict[str, Callable[[], Awaitable[None]]] = {
            "insert": it.insert,
            "abortTransaction": it.session.abort_transaction,
        }
        call = calls.get(name, it.session.commit_transaction)
        if labels is None:
            await call()
        else:
            error = await it.fails(call)
            assert error.error_labels == labels
            assert error.attempts == (2 if "RetryableWriteError" in labels else 1)
            assert isinstance(error, WriteConcernError) is (isinstance(answer, dict) and "writeConcernError" in answer)
        assert (transaction.address is not None or transaction.connection is not None) is is_pinned
        assert in_use(it.client) == (is_balanced and is_pinned)
        if name == "commitTransaction":
            assert it.state == "committed"
            await it.insert()  # outside of a transaction
            assert in_use(it.client) == 0


@pytest.mark.parametrize("name", ["commitTransaction", "abortTransaction"])
async def test_the_end_is_retried_on_another_mongos(name: str) -> None:
    async with subject(sharded()) as it:
        it.on("insert", {"n": 1, "recoveryToken": {"shard": 1}})
        await it.begin()
        server, other = pinned(it)
        server.on(name, HOST_UNREACHABLE)
        await (it.session.commit_transaction() if name == "commitTransaction" else it.session.abort_transaction())
        (found,) = carried(other, name)
        assert found["recoveryToken"] == {"shard": 1}
        assert found.get("writeConcern") == (MAJORITY if name == "commitTransaction" else None)


async def test_a_rejected_first_command_goes_to_another_mongos() -> None:
    async with subject(sharded()) as it:
        it.deployment["a:1"].on("insert", OVERLOADED)
        await it.begin()
        b, _ = pinned(it)
        assert b is it.deployment["b:1"]
        assert carried(b, "insert")[0]["startTransaction"]
        b.on("insert", OVERLOADED, {"n": 1})
        await it.insert()
        assert len(b.commands("insert")) == 3, "the transaction cannot move any more"
        await it.session.commit_transaction()
        assert b.commands("commitTransaction")


async def test_a_mongos_that_is_gone() -> None:
    async with subject(sharded(), serverSelectionTimeoutMS=500) as it:
        await it.begin()
        server, other = pinned(it)
        server.is_down = True
        server.drop_connections()
        await anyio.sleep(1)
        assert (await it.fails()).has_error_label(TRANSIENT)
        # Unpinned, so the abort does not wait for it.
        await it.session.abort_transaction()
        assert other.commands("abortTransaction")


async def test_recovery_tokens_of_other_shapes_are_ignored() -> None:
    async with subject(sharded()) as it:
        it.on("insert", {"n": 1, "recoveryToken": {"shard": 1}}, {"n": 1, "recoveryToken": 5})
        await it.begin()
        await it.insert()
        it.on("insert", {**failure(11000), "recoveryToken": {"shard": 2}})
        await it.fails()
        assert it.session._state.started_transaction().recovery_token == {"shard": 1}


# --- load balancers ---


@asynccontextmanager
async def balanced(**options: Any) -> AsyncIterator[Subject]:
    async with subject(ScriptedDeployment(["lb:1"], services=2), **options) as it:
        yield it


async def test_a_cursor_shares_the_connection_of_its_transaction() -> None:
    async with balanced() as it:
        it.on("find", FIRST_OF_TWO)
        it.on("getMore", LAST)
        it.session.start_transaction()
        cursor = await it.coll.find(session=it.session)
        assert in_use(it.client) == 1
        await it.insert()
        assert len(await cursor.to_list()) == 2
        dropped = await it.coll.find(session=it.session)
        await dropped.close()
        assert in_use(it.client) == 1
        await it.session.commit_transaction()
        assert in_use(it.client) == 1
        assert len({each.connection for service in it.deployment.services for each in service.received}) == 1
        await it.session.end_session()
        assert in_use(it.client) == 0


@pytest.mark.parametrize("answer", [LAST_BUT_ONE, failure(263)], ids=["answered", "refused"])
async def test_a_cursor_from_before_the_transaction_shares_its_connection_with_nobody(answer: Any) -> None:
    async with balanced() as it:
        it.on("find", FIRST_OF_TWO)
        it.on("getMore", answer)
        cursor = await it.coll.find(session=it.session)
        await cursor.next()
        it.session.start_transaction()
        with suppress(PyMongoError):
            await cursor.next()
        await it.session.abort_transaction()
        assert in_use(it.client) == 1, "the transaction has not returned the cursor's connection"
        await cursor.close()
        assert in_use(it.client) == 0


async def test_a_new_transaction_may_use_another_connection() -> None:
    async with balanced() as it:
        await it.begin()
        await it.session.commit_transaction()
        assert in_use(it.client) == 1
        it.session.start_transaction()
        assert in_use(it.client) == 0


async def test_the_connection_is_lost_between_two_operations() -> None:
    async with balanced() as it:
        await it.begin()
        for service in it.deployment.services:
            service.drop_connections()
        error = await it.fails()
        assert isinstance(error, AutoReconnect)
        assert "the connection that the transaction was opened on is lost" in str(error)
        assert error.has_error_label(TRANSIENT)
        assert in_use(it.client) == 0
        await it.session.abort_transaction()
        assert it.names[-1] == "abortTransaction"


async def test_the_connection_is_lost_after_a_rejection() -> None:
    """The error is that of the server, but the transaction cannot go on: `with_transaction` executes it again."""
    async with balanced() as it:
        it.on("update", OVERLOADED)
        times: list[float] = []

        async def work(session: AsyncClientSession[Any]) -> None:
            times.append(anyio.current_time())
            await it.insert(session)
            await it.coll.update_one({}, {"$set": {"a": 1}}, session=session)

        async def lose() -> None:
            await anyio.sleep(0.05)  # in the first backoff
            it.on("update", {"n": 1, "nModified": 1})
            for service in it.deployment.services:
                service.drop_connections()

        async with anyio.create_task_group() as group:
            group.start_soon(lose)
            await it.session.with_transaction(work)
        assert len(times) == 2
        assert it.names == ["insert", "update", "abortTransaction", "insert", "update", "commitTransaction"]


async def test_a_server_that_is_not_found_after_a_rejection() -> None:
    async with subject(serverSelectionTimeoutMS=500) as it:
        await it.begin()
        it.server.on("insert", OVERLOADED)

        async def stop() -> None:
            await anyio.sleep(0.05)
            it.server.is_down = True
            it.server.drop_connections()

        async with anyio.create_task_group() as group:
            group.start_soon(stop)
            error = await it.fails()
        assert isinstance(error, OperationFailure)
        assert error.error_labels == {"SystemOverloadedError", "RetryableError", TRANSIENT}


async def test_a_cancelled_operation_closes_the_connection() -> None:
    """No reply may be waited for: the connection is the transaction's, and nothing else ends that on its service."""
    async with balanced() as it:
        await it.begin()
        it.on("insert", Hang())
        with anyio.move_on_after(1):
            await it.insert()
        assert in_use(it.client) == 0
        await it.session.abort_transaction()


async def test_a_rejected_first_command_gives_its_connection_back() -> None:
    async with balanced(maxPoolSize=1) as it:
        it.on("insert", OVERLOADED, {"n": 1})
        await it.begin()
        assert in_use(it.client) == 1
        await it.session.commit_transaction()


async def test_a_client_is_closed_with_a_transaction_open() -> None:
    async with balanced() as it:
        await it.begin()
        await it.client.close()
        assert not any(service.open_connections for service in it.deployment.services)


# --- other sessions ---


async def test_snapshot_reads() -> None:
    async with subject(session={"snapshot": True}) as it:
        assert it.session.snapshot_time is None
        at = Timestamp(9, 1)
        it.server.on("find", {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [], "atClusterTime": at}})
        await it.coll.with_options(read_concern=ReadConcern("local")).find_one({}, session=it.session)
        assert it.session.snapshot_time == at
        it.server.on("distinct", {"values": [], "atClusterTime": Timestamp(10, 1)})
        await it.coll.distinct("x", session=it.session)
        await it.insert()
        assert it.session.snapshot_time == at
        first, *others = (each["readConcern"] for each in it.server.commands())
        assert first == {"level": "snapshot"}
        assert others == [{"level": "snapshot", "atClusterTime": at}] * 2
        with pytest.raises(InvalidOperation, match="snapshot sessions"):
            it.session.start_transaction()


async def test_the_snapshot_of_another_session() -> None:
    async with subject(session={"snapshot": True, "snapshot_time": Timestamp(3, 1)}) as it:
        it.server.on("distinct", {"values": []})
        await it.coll.distinct("x", session=it.session)
        (found,) = it.server.commands()
        assert found["readConcern"] == {"level": "snapshot", "atClusterTime": Timestamp(3, 1)}


@pytest.mark.parametrize("reply", [{"values": []}, {"values": [], "atClusterTime": 5}, {"values": [], "cursor": 5}])
async def test_a_snapshot_that_the_server_does_not_name(reply: dict[str, Any]) -> None:
    async with subject(session={"snapshot": True}) as it:
        it.server.on("distinct", reply)
        await it.coll.distinct("x", session=it.session)
        assert it.session.snapshot_time is None


async def test_a_bound_session(it: Subject) -> None:
    lsid = it.session.session_id
    async with it.session.bind(end_session=False) as bound:
        assert bound is it.session
        await it.coll.insert_one({})
        await it.coll.insert_many([{}])
        await it.coll.find_one({})
        await it.coll.find_one({"x": 1}, {"x": 1})
        it.server.on("find", FIRST_OF_TWO)
        it.server.on("getMore", LAST)
        cursor = await it.coll.find()
        await it.client.db.command("ping")
        async with it.client.start_session() as other, other.bind(end_session=False):
            await it.coll.insert_one({}, session=it.session)
            await it.coll.delete_one({})
            (found,) = it.server.commands("delete")
            assert found["lsid"] == other.session_id
    await cursor.to_list()
    its = [each for each in it.server.commands() if each["lsid"] == lsid]
    assert len(its) == len(it.server.commands()) - 1
    assert not it.session.has_ended
    await it.coll.insert_one({})
    assert it.server.commands()[-1]["lsid"] != lsid
    async with it.session.bind():
        it.session.start_transaction()
        await it.coll.insert_one({})
        assert it.server.commands()[-1]["startTransaction"]
    assert it.session.has_ended
    assert it.names[-1] == "abortTransaction"


async def test_a_task_that_outlives_the_block_of_a_bound_session() -> None:
    async with subject() as it, subject() as other:
        may_go = anyio.Event()

        async def task() -> None:
            await it.coll.find_one({})
            await may_go.wait()
            await it.coll.delete_one({})

        async with anyio.create_task_group() as tasks:
            async with it.session.bind(end_session=False) as outer, it.client.start_session() as inner:
                async with inner.bind():
                    tasks.start_soon(task)
                    await anyio.sleep(1)
                may_go.set()
                await anyio.sleep(1)
                assert inner.has_ended
                assert it.server.commands("delete")[0]["lsid"] == outer.session_id
                may_go = anyio.Event()
                tasks.start_soon(task)
                await anyio.sleep(1)
            # Another task's block is open.
            async with other.session.bind(end_session=False):
                may_go.set()
                await anyio.sleep(1)
        assert it.server.commands("delete")[1]["lsid"] != it.session.session_id


async def test_a_bind_block_that_ends_in_another_context(it: Subject) -> None:
    session = it.client.start_session()
    block = session.bind()
    context = contextvars.copy_context()
    with pytest.raises(StopIteration):
        context.run(block.__aenter__().send, None)
    await block.__aexit__(None, None, None)
    assert session.has_ended
    assert context.run(bound_session) is None


async def test_a_bind_block_is_entered_once_at_a_time(it: Subject) -> None:
    block = it.session.bind(end_session=False)
    async with block:
        with pytest.raises(InvalidOperation, match="has been entered already"):
            await block.__aenter__()
    async with block:
        await it.insert()


async def test_a_bound_session_of_another_client() -> None:
    async with subject() as it, subject() as other:
        async with other.session.bind(end_session=False):
            for call in (it.coll.find_one({}), it.coll.insert_one({}), it.coll.find().to_list()):
                with pytest.raises(InvalidOperation, match="Only the client that created the bound session"):
                    await call
        await it.coll.find_one({})
        with pytest.raises(TypeError, match="end_session must be True or False"):
            it.session.bind("no")  # type: ignore[arg-type]  # what is tested


async def test_pools_that_are_cleared() -> None:
    """The prose test "PoolClearedError Prose Test"."""
    async with subject(maxPoolSize=1) as it:
        it.server.on("find", Close())
        it.server.hello_delay = 0.5
        it.session.start_transaction()
        errors: list[PyMongoError] = []

        async def insert() -> None:
            errors.append(await it.fails())

        async with anyio.create_task_group() as tasks:
            server = next(iter(it.client._core.topology.servers))
            connection = server.pool.check_out_now()
            assert connection is not None
            tasks.start_soon(insert)
            await anyio.sleep(0.01)
            server.pool.clear(NetworkTimeout("no reply"))
            server.pool.check_in(connection)
        (error,) = errors
        assert isinstance(error, PoolClearedError)
        assert error.has_error_label(TRANSIENT)
        server.pool.ready()
