"""Retryable reads through the one retry loop, and what retryable writes have in common with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._base.error_documents import NOT_PRIMARY_CODES, RETRYABLE_READ_CODES
from motorlite._operations.collections import ListDatabases
from motorlite._operations.commands import RunCommand
from motorlite._operations.cursors import KillCursors
from motorlite._operations.reads import Count
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PoolClearedError,
    ServerSelectionTimeoutError,
)
from motorlite.read_preferences import ReadPreference
from motorlite.testing.scripted import Close, Hang, Raw, ScriptedDeployment, failure
from tests.support.core import (
    BAD_VALUE,
    FOUND,
    HOST_UNREACHABLE,
    OVERLOADED,
    A,
    B,
    answering,
    driver,
    fails,
    find,
    gaps,
    get_more,
    hello_delay,
    insert,
    later,
    replica_set,
    steps_down,
)

if TYPE_CHECKING:
    from motorlite.testing.scripted import Answer

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize(("name", "make"), [("find", find), ("insert", insert)], ids=["read", "write"])
# A success of either.
SUCCESS = {**FOUND, "n": 1}


@pytest.mark.parametrize("code", sorted(RETRYABLE_READ_CODES))
async def test_each_code_once(code: int) -> None:
    deployment = answering("find", failure(code), FOUND)
    server = deployment["a:1"]
    async with driver(deployment) as client:
        await client.run(find())
        assert len(server.times("find")) == 2
        server.received.clear()
        server.on("find", failure(code))
        error = await fails(client, find())
        assert len(server.times("find")) == 2
        reason = "failover" if code in NOT_PRIMARY_CODES else "temporary failure"
        assert (error.attempts, error.retry_reasons, error.retry_refusal) == (2, (reason,), "attempts")


@pytest.mark.parametrize("topology", [{}, {"replica_set": "rs"}, {"mongos": True}], ids=str)
@pytest.mark.parametrize(
    ("name", "operation", "success"),
    [
        ("find", find, FOUND),
        ("count", lambda: Count("db", "coll", selector=ReadPreference.PRIMARY), {"n": 3}),
        ("listDatabases", lambda: ListDatabases(selector=ReadPreference.PRIMARY), {"databases": []}),
    ],
)
async def test_in_every_topology(topology: dict[str, Any], name: str, operation: Any, success: dict[str, Any]) -> None:
    deployment = ScriptedDeployment(["a:1"], **topology)
    deployment["a:1"].on(name, HOST_UNREACHABLE, success)
    async with driver(deployment) as client:
        await client.run(operation())
        assert gaps(deployment["a:1"].times(name)) == [0]
        assert not any("txnNumber" in command for command in deployment["a:1"].commands(name))


@BOTH
async def test_a_broken_connection(name: str, make: Any) -> None:
    deployment = answering(name, Close(), SUCCESS)
    async with driver(deployment) as client:
        await client.run(make())
        assert len(deployment["a:1"].times(name)) == 2
        # The pool was cleared and the server had to be found again.
        assert len(client.recorder.cleared) == 1
        (event,) = client.recorder.retries
        assert (event.reason, event.rule, event.delay) == ("connection lost in flight", "specification", 0)


@BOTH
async def test_a_socket_time_out(name: str, make: Any) -> None:
    deployment = answering(name, Hang(), SUCCESS)
    async with driver(deployment, socketTimeoutMS=500) as client:
        await client.run(make())
        assert gaps(deployment["a:1"].times(name)) == [0.5]
        # A slow operation does not mean that the server is gone.
        assert not client.recorder.cleared
        deployment["a:1"].on(name, Hang())
        error = await fails(client, make())
        assert isinstance(error, NetworkTimeout)
        # Not the driver's own time limit.
        assert (error.attempts, error.phase) == (2, None)


@pytest.mark.parametrize("newest", [BAD_VALUE, failure(2, "NoWritesPerformed")])
async def test_the_error_of_the_retry_is_raised_when_it_is_from_the_server(newest: Answer) -> None:
    async with driver(answering("find", HOST_UNREACHABLE, newest)) as client:
        error = await fails(client, find())
        assert isinstance(error, OperationFailure)
        assert (error.code, error.attempts, error.retry_refusal) == (2, 2, "not retryable")


@pytest.mark.parametrize(
    ("answer", "kind"), [(failure(91), NotPrimaryError), (Close(), AutoReconnect)], ids=["state change", "network"]
)
async def test_the_error_of_the_retry_updates_the_topology(answer: Answer, kind: type[AutoReconnect]) -> None:
    # The first one does not: the server replied, and says nothing about its state.
    deployment = answering("find", HOST_UNREACHABLE, answer)
    async with driver(deployment) as client:
        hello_delay(deployment, "a:1", 1)
        error = await fails(client, find())
        assert type(error) is kind
        assert (error.attempts, error.retry_refusal) == (2, "attempts")
        assert len(client.recorder.cleared) == 1
        assert client.types() == {"a": "Unknown"}
        assert type(client.description().error) is kind


async def test_no_server_for_the_retry() -> None:
    deployment = replica_set()
    server = deployment["a:1"]

    def crash(_: dict[str, Any]) -> Answer:
        server.is_down = True
        return Close()

    server.on("find", crash)
    async with driver(deployment, serverSelectionTimeoutMS=3000) as client:
        before = client.now
        error = await fails(client, find())
        assert client.now == pytest.approx(before + 3)
        assert type(error) is AutoReconnect
        assert (error.attempts, error.phase, error.address) == (2, "selection", A)
        assert isinstance(error.__cause__, ServerSelectionTimeoutError)


async def test_no_server_for_the_first_attempt() -> None:
    deployment = replica_set()
    deployment["a:1"].is_down = True
    async with driver(deployment, connect=False, serverSelectionTimeoutMS=3000) as client:
        error = await fails(client, find())
        assert isinstance(error, ServerSelectionTimeoutError)
        assert (error.attempts, error.phase, error.retry_reasons) == (1, "selection", ())


async def test_an_answer_that_is_no_answer_is_not_retried() -> None:
    async with driver(answering("find", Raw(b"\x10\0\0\0" + b"\xff" * 12), FOUND)) as client:
        error = await fails(client, find())
        assert type(error).__name__ == "ProtocolError"
        assert error.attempts == 1
        await client.run(find())


@pytest.mark.parametrize("answer", [Close(), HOST_UNREACHABLE, failure(91)], ids=["network", "code", "state change"])
@pytest.mark.parametrize(
    "operation",
    [
        # The cursor may have moved, and a batch would be lost.
        get_more(),
        KillCursors("db", "coll", [7], address=A),
        # A command of the user is not looked at: not even a read is retried, nor mapReduce, which has no method.
        RunCommand("db", {"ping": 1}),
        RunCommand("db", {"find": "coll", "filter": {}}),
        RunCommand("db", {"aggregate": "coll", "pipeline": [], "cursor": {}}),
        RunCommand("db", {"mapReduce": "coll", "map": "m", "reduce": "r", "out": {"inline": 1}}),
    ],
    ids=lambda operation: operation.name,
)
async def test_what_is_not_retried(operation: Any, answer: Answer) -> None:
    deployment = answering(operation.name, answer, {"ok": 1})
    async with driver(deployment) as client:
        error = await fails(client, operation)
        assert len(deployment["a:1"].commands(operation.name)) == error.attempts == 1
        assert error.retry_refusal == "not retryable"


async def test_retry_reads_off() -> None:
    async with driver(answering("find", HOST_UNREACHABLE, FOUND), retryReads=False) as client:
        error = await fails(client, find())
        assert (error.attempts, error.retry_refusal) == (1, "disabled")


async def test_the_retry_is_built_for_the_server_that_it_goes_to() -> None:
    # A comment is left out of getMore for servers older than 4.4; here the option raises on the older server.
    deployment = answering("find", Close(), servers=2)
    deployment["b:1"].hello["maxWireVersion"] = 8
    preference = ReadPreference.PRIMARY_PREFERRED
    async with driver(deployment) as client:
        deployment["a:1"].is_down = True
        error = await fails(client, find(selector=preference, read_preference=preference, allow_disk_use=True))
        assert isinstance(error, AutoReconnect)
        assert error.address == A
        assert error.__cause__ is not None
        assert isinstance(error.__cause__.__cause__, ConfigurationError)
        reply = await client.run(find(selector=preference, read_preference=preference))
        assert reply.address == B


OLDER = {"maxWireVersion": 7}


@BOTH
async def test_a_new_primary_that_is_too_old(name: str, make: Any) -> None:
    # Selecting a server for the retry tells that; the error of the first attempt says more.
    deployment = replica_set(servers=2)

    def step_down(_: dict[str, Any]) -> Answer:
        deployment["b:1"].hello.update(OLDER)
        deployment.step_down("b:1")
        return failure(10107, "RetryableWriteError")

    deployment["a:1"].on(name, step_down)
    async with driver(deployment) as client:
        error = await fails(client, make())
        assert isinstance(error, NotPrimaryError)
        assert (error.code, error.address, error.attempts, error.retry_refusal) == (10107, A, 2, "not retryable")
        assert isinstance(error.__cause__, ConfigurationError)
        assert "wire version 7" in str(error.__cause__)
        assert not deployment["b:1"].commands(name)


@pytest.mark.parametrize("answer", [HOST_UNREACHABLE, OVERLOADED], ids=["ordinary", "overload"])
@BOTH
async def test_a_connection_for_the_retry_that_leads_to_an_older_server(name: str, make: Any, answer: Answer) -> None:
    # Only its handshake tells: the monitor has not looked since.
    deployment = replica_set()
    server = deployment["a:1"]

    def downgrade(_: dict[str, Any]) -> Answer:
        server.hello.update(OLDER)
        return Close() if answer is HOST_UNREACHABLE else answer

    server.on(name, downgrade)
    async with driver(deployment) as client, anyio.create_task_group() as group:
        if answer is OVERLOADED:

            async def lose_the_connection_during_the_backoff() -> None:
                await anyio.sleep(0.05)
                server.drop_connections()

            group.start_soon(lose_the_connection_during_the_backoff)
        error = await fails(client, make())
        assert len(server.commands(name)) == 1
        assert isinstance(error, OperationFailure if answer is OVERLOADED else AutoReconnect)
        assert (error.address, error.attempts) == (A, 2)
        assert isinstance(error.__cause__, ConfigurationError)
        assert "wire version 7" in str(error.__cause__)


NOT_PRIMARY = failure(10107, "RetryableWriteError")


@BOTH
async def test_a_step_down_and_a_new_primary(name: str, make: Any) -> None:
    deployment = replica_set(servers=2)
    deployment["a:1"].on(name, steps_down(deployment, "b:1", NOT_PRIMARY))
    deployment["b:1"].on(name, SUCCESS)
    async with driver(deployment) as client:
        await client.run(make())
        (first,), (second,) = deployment["a:1"].commands(name), deployment["b:1"].commands(name)
        assert first.get("txnNumber") == second.get("txnNumber") == (None if name == "find" else 1)
        assert first["lsid"] == second["lsid"]


@BOTH
async def test_a_step_down_without_a_new_primary(name: str, make: Any) -> None:
    deployment = replica_set(servers=2)
    deployment["a:1"].on(name, steps_down(deployment, None, NOT_PRIMARY))
    async with driver(deployment, serverSelectionTimeoutMS=2000) as client:
        error = await fails(client, make())
        assert isinstance(error, NotPrimaryError)
        assert (error.code, error.attempts, error.phase) == (10107, 2, "selection")
        assert isinstance(error.__cause__, ServerSelectionTimeoutError)


@BOTH
async def test_waiting_for_a_connection_while_the_pool_is_cleared(name: str, make: Any) -> None:
    # Retryable reads specification, prose test 1, and retryable writes, 2: the second operation waits in the queue and
    # is retried. The description is reset by then; what was known counts.
    deployment = answering(name, later(failure(91, "RetryableWriteError"), 1), SUCCESS)
    async with driver(deployment, maxPoolSize=1) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.run, make())
            await anyio.sleep(0.1)
            await client.run(make())
        assert len(deployment["a:1"].times(name)) == 3
        events = {type(event.error): (event.reason, event.rule, event.error) for event in client.recorder.retries}
        assert events.keys() == {NotPrimaryError, PoolClearedError}
        assert events[NotPrimaryError][:2] == ("failover", "specification")
        *found, cleared = events[PoolClearedError]
        assert found == ["server not available", "specification"]
        assert cleared.has_error_label("RetryableWriteError") is (name == "insert")


async def test_a_pool_that_is_cleared_twice_raises_the_first_error() -> None:
    async with driver(replica_set(), maxPoolSize=1) as client:
        pool = client.server().pool
        busy = pool.check_out_now()
        assert busy is not None

        async def clear_twice() -> None:
            for message in ("the first", "the second"):
                await anyio.sleep(0.1)
                pool.clear(AutoReconnect(message))
                pool.ready()

        async with anyio.create_task_group() as group:
            group.start_soon(clear_twice)
            error = await fails(client, find())
        assert isinstance(error, PoolClearedError)
        assert "the first" in str(error)
        assert (error.attempts, error.retry_reasons, error.address) == (2, ("server not available",), A)
        pool.check_in(busy)
