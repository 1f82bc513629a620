"""Connections that an overloaded server refuses, and which error is raised when a retry fails."""

from __future__ import annotations

from copy import copy
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._operations.commands import RunCommand
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    InvalidOperation,
    NetworkTimeout,
    OperationFailure,
    PoolClearedError,
    ServerSelectionTimeoutError,
)
from motorlite.read_preferences import ReadPreference
from motorlite.testing.scripted import Hang, overloaded
from motorlite.write_concern import WriteConcern
from tests.support.core import (
    BAD_VALUE,
    DELAYS,
    EVERY_KIND,
    OVERLOADED,
    A,
    answering,
    driver,
    fails,
    find,
    insert,
    make_reachable,
    make_unreachable,
    replica_set,
    update_many,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._base.values import ServerFacts
    from motorlite._operations.contract import Command, Operation

pytestmark = pytest.mark.anyio


async def test_a_server_that_is_gone_before_the_retry_does_not_hide_the_overload_error() -> None:
    deployment = answering("find", overloaded(baseBackoffMS=5000))
    server = deployment["a:1"]
    async with driver(deployment, serverSelectionTimeoutMS=2000, heartbeatFrequencyMS=500) as client:

        async def crash_during_the_backoff() -> None:
            await anyio.sleep(1)
            server.is_down = True
            server.drop_connections()

        before = client.now
        async with anyio.create_task_group() as group:
            group.start_soon(crash_during_the_backoff)
            error = await fails(client, find())
        # Not five retries: the time of the selection timeout is over.
        assert client.now == pytest.approx(before + 5 + 2, abs=1e-9)
        assert isinstance(error, OperationFailure)
        assert error.code == 462
        assert error.phase == "selection"
        assert (error.attempts, error.retry_reasons) == (2, ("overload",))
        assert (
            "(server a:1; time used up in phase: selection; 2 attempts, retried for: overload; "
            "not retried again: deadline)"
        ) in str(error)
        assert isinstance(error.__cause__, ServerSelectionTimeoutError)
        assert error.__cause__.retry_refusal is None
        assert client.core.stats().refusals == {"deadline": 1}
        assert error.__cause__.address is None
        assert [event.address for event in client.recorder.retries] == [A, None]
        # The failed retry was not for overload.
        assert client.tokens == 1000


@pytest.mark.parametrize("how", ["refused", "closed during hello", "an error"])
async def test_check_outs_that_fail_before_a_retry_do_not_hide_the_overload_error(how: str) -> None:
    deployment = answering("find", OVERLOADED)
    async with driver(deployment) as client:

        async def crash_during_the_backoff() -> None:
            await anyio.sleep(0.05)
            if how == "an error":
                deployment["a:1"].drop_connections()
                deployment["a:1"].on("isMaster", BAD_VALUE)
            else:
                make_unreachable(deployment, hangs_up=how != "refused")

        before = client.now
        async with anyio.create_task_group() as group:
            group.start_soon(crash_during_the_backoff)
            error = await fails(client, find())
        # A connection that cannot be made is an overload error of the operation, and as such retried.
        retries = 1 if how == "an error" else 5
        assert client.now == pytest.approx(before + sum(DELAYS[:retries]), abs=1e-9)
        assert isinstance(error, OperationFailure)
        assert error.retry_reasons[0] == "overload"
        # Only an answer to hello that no retry can change is more important.
        assert error.code == (2 if how == "an error" else 462)
        assert (error.attempts, error.retry_refusal) == (retries + 1, "not retryable" if retries == 1 else "attempts")
        assert how == "an error" or isinstance(error.__cause__, AutoReconnect)


@pytest.mark.parametrize("limit", [inf, 60])
async def test_without_overload_retries_a_refused_connection_is_not_retried(limit: float) -> None:
    # It carries both labels, and after an overload error no rule may retry more often than maxAdaptiveRetries.
    deployment = replica_set()
    async with driver(deployment, maxAdaptiveRetries=0) as client:
        make_unreachable(deployment, hangs_up=False)
        for make in (find, insert):
            error = await fails(client, make(), timeout=limit)
            assert (error.attempts, error.retry_refusal) == (1, "attempts")
            assert {"SystemOverloadedError", "RetryableError"} <= error.error_labels


async def test_an_unacknowledged_write_is_retried_until_it_is_sent() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        make_unreachable(deployment, hangs_up=False)
        error = await fails(client, insert(write_concern=WriteConcern(w=0)))
        assert (error.attempts, error.retry_reasons) == (6, ("server not available",) * 5)
        assert not client.recorder.command_events


@pytest.mark.parametrize("hangs_up", [False, True], ids=["refused", "closed during hello"])
@EVERY_KIND
async def test_a_connection_that_cannot_be_made_is_an_overload_error(
    name: str, make: Callable[[], Operation[Any]], success: dict[str, Any], hangs_up: bool
) -> None:
    deployment = replica_set()
    server = deployment["a:1"]
    server.on(name, success)
    async with driver(deployment) as client:
        client.drain_to(10)
        make_unreachable(deployment, hangs_up=hangs_up)
        before = client.now
        error = await fails(client, make())
        assert client.now == pytest.approx(before + 3.1, abs=1e-9)
        assert client.tokens == 5
        assert isinstance(error, AutoReconnect)
        assert {"SystemOverloadedError", "RetryableError"} <= error.error_labels
        assert (error.attempts, error.retry_reasons, error.address) == (6, ("server not available",) * 5, A)
        assert [event.delay for event in client.recorder.retries] == [*DELAYS, 0]
        # The server is there, it only has no room.
        assert client.server().description.is_server_type_known
        assert not client.recorder.cleared
        assert not client.recorder.command_events

        async def recover() -> None:
            await anyio.sleep(0.15)
            make_reachable(deployment)

        before = client.now
        async with anyio.create_task_group() as group:
            group.start_soon(recover)
            await client.run(make())
        assert client.now == pytest.approx(before + 0.3, abs=1e-9)


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_pool_that_is_cleared_before_a_retry_does_not_hide_the_overload_error(is_read: bool) -> None:
    deployment = replica_set()
    name, make = ("find", find) if is_read else ("update", update_many)
    deployment["a:1"].on(name, OVERLOADED)
    async with driver(deployment, maxPoolSize=1) as client:
        pool = client.server().pool

        async def clear_while_it_waits() -> None:
            await anyio.sleep(0.05)
            busy = pool.check_out_now()
            assert busy is not None
            for _ in range(6):
                await anyio.sleep(0.1)
                pool.clear(AutoReconnect("the monitor says so"))
                pool.ready()
            pool.check_in(busy)

        async with anyio.create_task_group() as group:
            group.start_soon(clear_while_it_waits)
            error = await fails(client, make())
        assert isinstance(error, OperationFailure)
        assert error.code == 462
        assert isinstance(error.__cause__, PoolClearedError)
        # For a read the cleared pool is retried as well; all retries together are five.
        assert error.attempts == (6 if is_read else 2)
        assert error.retry_reasons[0] == "overload"
        assert set(error.retry_reasons[1:]) == ({"server not available"} if is_read else set())


async def test_a_connection_that_takes_too_long_is_an_overload_error() -> None:
    # The server queues new connections while it is overloaded.
    deployment = replica_set()
    async with driver(deployment, connectTimeoutMS=1000) as client:
        make_unreachable(deployment, hangs_up=True)
        deployment["a:1"].on("isMaster", Hang())
        before = client.now

        async def recover() -> None:
            await anyio.sleep(1.05)
            make_reachable(deployment)

        async with anyio.create_task_group() as group:
            group.start_soon(recover)
            await client.run(update_many())
        assert client.now == pytest.approx(before + 1.1, abs=1e-9)
        (event,) = client.recorder.retries
        assert isinstance(event.error, NetworkTimeout)
        assert (event.reason, event.rule) == ("server not available", "overload policy")
        assert (event.delay, event.address) == (0.1, A)


class BuiltOnce(RunCommand):
    """A command that cannot be built again."""

    built = 0

    def command(self, facts: ServerFacts) -> Command:
        self.built += 1
        if self.built > 1:
            raise ValueError("once only")
        return super().command(facts)


PREFERENCE = ReadPreference.PRIMARY_PREFERRED


@pytest.mark.parametrize(
    ("operation", "cause"),
    [
        (find(selector=PREFERENCE, read_preference=PREFERENCE, allow_disk_use=True), ConfigurationError),
        (BuiltOnce("db", {"ping": 1}, selector=PREFERENCE), ValueError),
    ],
)
async def test_a_command_that_cannot_be_built_again_does_not_hide_the_overload_error(
    operation: Operation[Any], cause: type[Exception]
) -> None:
    deployment = answering(operation.name, OVERLOADED, servers=2)
    # MongoDB 4.2, where allowDiskUse is an error.
    deployment["b:1"].hello["maxWireVersion"] = 8
    async with driver(deployment) as client:
        error = await fails(client, copy(operation))
        assert isinstance(error, OperationFailure)
        assert (error.code, error.attempts, error.address) == (462, 2, A)
        assert isinstance(error.__cause__, InvalidOperation)
        assert str(error.__cause__).startswith("no equivalent command for this server: ")
        assert isinstance(error.__cause__.__cause__, cause)
        assert not deployment["b:1"].commands()
        # No connection is lost on that way.
        assert not client.server("b").pool.state.in_use


async def test_a_command_that_cannot_be_built_at_all_raises_its_own_error() -> None:
    deployment = replica_set(wire_version=8)
    async with driver(deployment) as client:
        client.drain_to(10)
        error = await fails(client, find(allow_disk_use=True))
        assert isinstance(error, ConfigurationError)
        assert (error.attempts, error.retry_refusal, error.address) == (1, None, A)
        assert client.tokens == 10


async def test_the_cause_of_an_error_is_kept() -> None:
    cause = OSError("what the socket said")

    async def start_exchange(data: bytes, until: float) -> bytes:
        raise AutoReconnect("broken") from cause

    async with driver(replica_set()) as client:
        (connection,) = client.server().pool.state.idle
        setattr(connection.stream, "start_exchange", start_exchange)  # noqa: B010  # a method
        error = await fails(client, update_many())
        assert error.__cause__ is cause


async def test_the_context_of_an_error_is_kept() -> None:
    """Not what the caller is handling, which is further away."""

    async def start_exchange(data: bytes, until: float) -> bytes:
        try:
            raise KeyError("inside")
        except KeyError:
            raise AutoReconnect("broken")  # noqa: B904  # the implicit context

    async with driver(replica_set()) as client:
        (connection,) = client.server().pool.state.idle
        setattr(connection.stream, "start_exchange", start_exchange)  # noqa: B010  # a method
        try:
            raise RuntimeError("outside")
        except RuntimeError:
            error = await fails(client, update_many())
        assert isinstance(error.__context__, KeyError)
