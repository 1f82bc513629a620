"""Deadlines: client-side operations timeout, and the deadline of the caller's cancel scope, in virtual time."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._base.deadline import Deadline
from motorlite._operations.contract import Call
from motorlite._operations.find import Find, FindOne
from motorlite._operations.single_writes import Insert
from motorlite.errors import (
    AutoReconnect,
    ExecutionTimeout,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)
from motorlite.read_preferences import ReadPreference
from motorlite.testing.scripted import Hang, failure
from motorlite.write_concern import WriteConcern
from tests.support.core import (
    BAD_VALUE,
    DONE,
    FOUND,
    HOST_UNREACHABLE,
    OVERLOADED,
    RETRYABLE_ONLY,
    A,
    driver,
    fails,
    find,
    get_more,
    hello_delay,
    insert,
    later,
    limits,
    one_server,
    replica_set,
    run_command,
    update_many,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._operations.contract import Operation
    from tests.support.core import Driver

pytestmark = pytest.mark.anyio


def find_one(**arguments: Any) -> FindOne[Any]:
    """A read that opens no cursor."""
    return FindOne("db", "coll", {}, selector=ReadPreference.PRIMARY, **arguments)


def near(*values: float) -> Any:
    # Whole milliseconds are cut off, and virtual time is a sum of floats.
    return pytest.approx(list(values), abs=1)


async def fails_after(seconds: float, client: Driver, operation: Operation[Any], **arguments: Any) -> PyMongoError:
    before = client.now
    error = await fails(client, operation, **arguments)
    assert client.now == pytest.approx(before + seconds, abs=1e-9)
    return error


def take_a_connection(client: Driver) -> Callable[[], None]:
    """Check a connection out. Returns what gives it back."""
    pool = client.server().pool
    busy = pool.check_out_now()
    assert busy is not None
    return lambda: pool.check_in(busy)


# --- maxTimeMS ---


@pytest.mark.parametrize(
    ("name", "make"), [("find", find), ("insert", insert), ("update", update_many), ("ping", run_command)]
)
async def test_each_attempt_carries_what_is_left(name: str, make: Any) -> None:
    async with one_server({name: [OVERLOADED, OVERLOADED, later(OVERLOADED, 1), FOUND]}) as (client, a):
        await client.run(make(), timeout=10)
        assert limits(a, name) == near(10_000, 9900, 9700, 8300)


async def test_less_the_smallest_round_trip_time() -> None:
    async with one_server(latency=0.02, heartbeatFrequencyMS=500) as (client, a):
        await client.run(find(), timeout=10)
        hello_delay(client.deployment, "a:1", 0.5)
        await anyio.sleep(3)
        await client.run(find(), timeout=10)
        # Ten samples later the small ones are forgotten.
        await anyio.sleep(10)
        await client.run(find(), timeout=10)
        assert limits(a, "find") == near(9980, 9980, 9500)


async def test_no_round_trip_time_until_there_are_two_samples() -> None:
    async with one_server(latency=0.02, connect=False) as (client, a):
        # The check and the handshake of the connection took 20 ms each.
        await client.run(find(), timeout=10)
        assert limits(a, "find") == near(9960)
        assert client.server().description.min_round_trip_time == 0


async def test_when_nothing_is_left_nothing_is_sent() -> None:
    async with one_server(latency=0.2, heartbeatFrequencyMS=500) as (client, a):
        await anyio.sleep(1)
        error = await fails_after(0, client, find(), timeout=0.2)
        assert isinstance(error, ExecutionTimeout)
        assert (error.code, error.timeout, error.phase, error.attempts) == (50, True, "before sending", 1)
        assert "time used up in phase: before sending; time limits: client 0.2 s, server none" in str(error)
        assert not a.commands()
        assert not client.recorder.command_events
        # The connection is as good as before.
        assert len(client.server().pool.state.idle) == 1
        await client.run(find(), timeout=0.3)
        assert limits(a, "find") == near(100)


async def test_when_nothing_is_left_for_a_retry_the_first_error_is_raised() -> None:
    async with one_server({"find": OVERLOADED}, latency=0.2, heartbeatFrequencyMS=500) as (client, a):
        await anyio.sleep(1)
        # The delay of 100 ms fits, but not the way to the server after it.
        error = await fails_after(0.1, client, find(), timeout=0.25)
        assert isinstance(error, OperationFailure)
        assert (error.code, error.attempts, error.phase) == (462, 2, "before sending")
        assert isinstance(error.__cause__, ExecutionTimeout)
        assert len(a.commands()) == 1


@pytest.mark.parametrize("make", [find, get_more, insert, run_command], ids=["find", "getMore", "insert", "ping"])
async def test_a_deadline_that_has_passed_already(make: Any) -> None:
    async with one_server() as (client, a):
        error = await fails_after(0, client, make(), timeout=0)
        assert isinstance(error, ExecutionTimeout)
        assert not a.commands()


async def test_getmore_has_none_and_is_limited_by_the_client() -> None:
    async with one_server({"getMore": [OVERLOADED, Hang()]}) as (client, a):
        error = await fails_after(2, client, get_more(), timeout=2)
        assert isinstance(error, NetworkTimeout)
        assert (error.attempts, error.phase) == (2, "reply")
        assert limits(a, "getMore") == [None, None]
        a.on("getMore")


# --- phases ---


async def test_phase_selection() -> None:
    deployment = replica_set()
    deployment["a:1"].is_down = True
    async with driver(deployment, connect=False) as client:
        error = await fails_after(2, client, find(), timeout=2)
        assert isinstance(error, ServerSelectionTimeoutError)
        assert (error.timeout, error.phase) == (True, "selection")
        assert "time used up in phase: selection" in str(error)


@pytest.mark.parametrize("phase", ["queue", "connecting"])
async def test_phases_of_the_check_out(phase: str) -> None:
    async with one_server(maxPoolSize=1) as (client, a):
        give_back = take_a_connection(client)
        if phase == "connecting":
            give_back()
            a.drop_connections()
            a.on("isMaster", Hang())
        error = await fails_after(2, client, find(), timeout=2)
        assert isinstance(error, WaitQueueTimeoutError)
        assert (error.timeout, error.phase, error.address) == (True, phase, A)
        if phase == "queue":
            give_back()


async def test_phase_selection_of_a_retry() -> None:
    async with one_server({"find": Hang()}) as (client, a):

        async def crash() -> None:
            await anyio.sleep(1)
            a.is_down = True
            a.drop_connections()

        async with anyio.create_task_group() as group:
            group.start_soon(crash)
            error = await fails_after(2, client, find(), timeout=2)
        # The first error is raised, and tells that the time was used up looking for another server.
        assert isinstance(error, AutoReconnect)
        assert not isinstance(error, ServerSelectionTimeoutError)
        assert (error.timeout, error.phase, error.attempts) == (True, "selection", 2)


@pytest.mark.parametrize("make", [find, insert, update_many, run_command])
async def test_phase_reply(make: Any) -> None:
    async with one_server(dict.fromkeys(("find", "insert", "update", "ping"), Hang())) as (client, _):
        error = await fails_after(2, client, make(), timeout=2)
        assert isinstance(error, NetworkTimeout)
        assert (error.timeout, error.phase, error.attempts) == (True, "reply", 1)
        # The connection could not be kept: its next reply would be somebody else's.
        assert not client.server().pool.state.idle
        assert not client.recorder.cleared


async def test_phase_reply_when_the_server_gave_up() -> None:
    async with one_server({"find": later(failure(50), 1.9)}) as (client, _):
        error = await fails_after(1.9, client, find(), timeout=2)
        assert isinstance(error, ExecutionTimeout)
        assert (error.timeout, error.phase) == (True, "reply")
        # Without a deadline of the operation it was a limit of the user's own.
        error = await fails(client, find())
        assert (error.timeout, error.phase) == (True, None)


async def test_phase_reply_of_an_unacknowledged_write() -> None:
    async with one_server() as (client, a):
        for stream in a.open_connections:
            stream.is_stalled = True
        error = await fails_after(2, client, insert(write_concern=WriteConcern(w=0)), timeout=2)
        assert (error.timeout, error.phase) == (True, "reply")


async def test_phase_backoff() -> None:
    async with one_server({"find": OVERLOADED}) as (client, _):
        error = await fails_after(0.1, client, find(), timeout=0.3)
        # The server's error, not a time-out: it says more, and it came before the deadline.
        assert isinstance(error, OperationFailure)
        assert (error.code, error.phase, error.retry_refusal, error.attempts) == (462, "backoff", "deadline", 2)


async def test_the_phase_of_a_retry_is_told_by_the_error_of_the_first_attempt() -> None:
    async with one_server({"find": OVERLOADED}, maxPoolSize=1) as (client, _):

        async def take_the_connection() -> None:
            await anyio.sleep(0.05)
            give_back = take_a_connection(client)
            await anyio.sleep(5)
            give_back()

        client.core._background.host.spawn(take_the_connection)
        error = await fails_after(2, client, find(), timeout=2)
        assert isinstance(error, OperationFailure)
        assert (error.code, error.phase, error.attempts) == (462, "queue", 2)
        await anyio.sleep(5)


# --- limits of waiting ---


async def test_selection_and_check_out_share_server_selection_timeout() -> None:
    deployment = replica_set()
    deployment["a:1"].is_down = True
    async with driver(deployment, connect=False, serverSelectionTimeoutMS=2000, heartbeatFrequencyMS=500) as client:

        async def appear() -> None:
            await anyio.sleep(1.2)
            deployment["a:1"].is_down = False
            # The monitor's connection is made, the operation's is not.
            hello_delay(deployment, "a:1", 0)
            deployment["a:1"].on("isMaster", later(deployment._hello_reply(deployment["a:1"]), 0.001), Hang())

        async with anyio.create_task_group() as group:
            group.start_soon(appear)
            error = await fails_after(2, client, find(), timeout=60)
        assert isinstance(error, WaitQueueTimeoutError)
        assert error.phase == "connecting"


async def test_each_attempt_has_its_own_limit() -> None:
    # The first attempt had to wait for a server; its limit has passed long ago when the retry needs a connection.
    slowly = {"find": [later(OVERLOADED, 5), FOUND]}
    async with one_server(slowly, latency=0.1, connect=False, serverSelectionTimeoutMS=1000) as (client, a):

        async def drop_during_the_backoff() -> None:
            await anyio.sleep(5.25)
            (connection,) = client.server().pool.state.idle
            connection.close()

        async with anyio.create_task_group() as group:
            group.start_soon(drop_during_the_backoff)
            await client.run(find(), timeout=60)
        assert len(a.commands("find")) == 2


async def test_an_attempt_that_need_not_select_may_wait_for_a_connection_as_long() -> None:
    async with one_server(maxPoolSize=1, serverSelectionTimeoutMS=2000) as (client, _):
        give_back = take_a_connection(client)
        assert isinstance(await fails_after(2, client, find(), timeout=60), WaitQueueTimeoutError)
        # Without timeoutMS the queue is not limited by it; nor is it in a scope.
        for scope in (anyio.CancelScope(), anyio.fail_after(60)):
            with scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(client.run, find())
                    await anyio.sleep(50)
                    give_back()
            give_back = take_a_connection(client)
        give_back()


async def test_socket_timeout_is_ignored() -> None:
    async with one_server({"find": later(FOUND, 1)}, socketTimeoutMS=100) as (client, _):
        await client.run(find(), timeout=2)
        assert isinstance(await fails(client, find()), NetworkTimeout)


# --- retries ---


async def test_ordinary_retries_go_on_until_the_deadline() -> None:
    async with one_server({"find": later(HOST_UNREACHABLE, 0.3)}) as (client, a):
        error = await fails_after(1, client, find(), timeout=1)
        assert isinstance(error, NetworkTimeout)
        assert (error.attempts, error.phase, error.retry_refusal) == (4, "reply", "deadline")
        assert error.retry_reasons == ("temporary failure",) * 3
        # The second retry waits for a millisecond, the third for ten.
        assert limits(a, "find") == near(1000, 700, 399, 89)


async def test_retryable_alone_is_limited_to_five_as_well() -> None:
    async with one_server({"find": later(RETRYABLE_ONLY, 0.01)}) as (client, _):
        assert (await fails(client, find(), timeout=60)).attempts == 6


async def test_an_error_at_the_deadline_is_not_retried() -> None:
    async with one_server({"ping": [later(RETRYABLE_ONLY, 1), DONE]}) as (client, a):
        client.drain_to(10)
        error = await fails(client, run_command(), timeout=1)
        assert len(a.commands("ping")) == 1
        assert error.attempts == 1
        assert client.tokens == 10


async def test_an_error_that_is_not_retryable_has_no_phase() -> None:
    async with one_server({"ping": BAD_VALUE}) as (client, _):
        error = await fails(client, run_command(), timeout=1)
        assert (error.phase, error.retry_refusal, error.timeout) == (None, None, False)


# --- the caller's cancel scope ---


@pytest.mark.parametrize(
    ("name", "make"), [("find", find_one), ("insert", insert), ("update", update_many), ("ping", run_command)]
)
async def test_a_scope_lowers_the_limit_of_commands_without_a_cursor(name: str, make: Any) -> None:
    async with one_server({name: [OVERLOADED, FOUND]}) as (client, a):
        with anyio.fail_after(10):
            await client.run(make())
        # A little later than the scope, which must be what ends the operation.
        assert limits(a, name) == near(10_005, 9905)


async def test_the_earliest_scope_counts() -> None:
    async with one_server() as (client, a):
        with anyio.fail_after(10), anyio.fail_after(5), anyio.fail_after(60):
            await client.run(run_command())
            # That of a find holds for its getMores as well, which may be made outside of the scope.
            await client.run(Find("db", "coll", {}, max_time_ms=20_000))
        with anyio.fail_after(10), anyio.CancelScope(shield=True):
            await client.run(run_command())
        assert limits(a, "ping") == [pytest.approx(5005, abs=1), None]
        assert limits(a, "find") == [20_000]


async def test_a_scope_that_is_cancelled_already() -> None:
    async with one_server() as (client, a):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await client.run(find())
        assert scope.cancelled_caught
        assert not a.commands()
        # No connection was spent on it.
        assert len(client.server().pool.state.idle) == 1
        assert not client.recorder.command_events


async def test_a_scope_that_is_cancelled_already_costs_no_time() -> None:
    async with driver(replica_set()) as client:
        before = client.now
        await client.core.executor.execute(find(), Call(None, Deadline(inf, -inf)))
        assert client.now == before


async def test_an_error_at_the_very_end_of_a_scope_is_left_to_the_scope() -> None:
    async with one_server({"find": later(BAD_VALUE, 0.5)}) as (client, _):
        before = client.now
        # Nobody's scope: what comes after the chance that it gets can be seen.
        with pytest.raises(OperationFailure):
            await client.core.executor.execute(find(), Call(None, Deadline(inf, before + 0.5)))
        assert client.now == pytest.approx(before + 0.501, abs=1e-9)


async def test_a_scope_stops_retries_that_do_not_fit() -> None:
    async with one_server({"find": OVERLOADED}) as (client, _):
        client.drain_to(10)
        with anyio.move_on_after(0.25) as scope:
            error = await fails_after(0.1, client, find())
            assert isinstance(error, OperationFailure)
            assert (error.code, error.attempts, error.retry_refusal) == (462, 2, "deadline")
            # Not the driver's own time-out.
            assert (error.phase, error.timeout) == (None, False)
        assert not scope.cancelled_caught
        assert client.tokens == 9


async def test_a_scope_does_not_turn_on_the_rules_of_timeout_ms() -> None:
    async with one_server({"find": HOST_UNREACHABLE}) as (client, _):
        with anyio.fail_after(60):
            error = await fails(client, find())
        assert (error.attempts, error.retry_refusal) == (2, "attempts")


async def test_socket_timeout_holds_in_a_scope() -> None:
    async with one_server({"ping": Hang()}, socketTimeoutMS=500) as (client, _):
        with anyio.fail_after(60):
            error = await fails_after(0.5, client, run_command())
        assert isinstance(error, NetworkTimeout)
        assert error.phase is None


@pytest.mark.parametrize("limit", [float("inf"), 10])
async def test_the_scope_itself_ends_the_operation(limit: float) -> None:
    async with one_server({"find": Hang()}) as (client, _):
        before = client.now
        with anyio.move_on_after(2) as scope:
            await client.run(find(), timeout=limit)
        assert scope.cancelled_caught
        assert client.now == pytest.approx(before + 2)
        assert not client.recorder.retries


async def test_background_work_does_not_see_the_callers_scope() -> None:
    # The client is bound, and its monitors are started, inside of the scope.
    deployment = replica_set()
    with anyio.move_on_after(5) as scope:
        async with driver(deployment, connect=False, heartbeatFrequencyMS=500) as client:
            await client.run(run_command())
            with anyio.CancelScope(shield=True):
                hellos = len(deployment["a:1"].hellos)
                await anyio.sleep(10)
                assert len(deployment["a:1"].hellos) >= hellos + 15
                await client.run(find())
    assert scope.cancel_called


async def test_no_limit_is_a_limit_all_the_same() -> None:
    # timeoutMS=0: the older limits are ignored, and there are retries until one succeeds.
    async with one_server({"find": [*[HOST_UNREACHABLE] * 5, FOUND]}) as (client, a):
        await client.core.executor.execute(find(), Call(None, Deadline(is_set=True)))
        assert len(a.commands("find")) == 6
        write = Insert("db", "coll", {"_id": 1}, write_concern=WriteConcern(w=2, wtimeout=500))
        await client.core.executor.execute(write, Call(None, Deadline(is_set=True)))
        await client.run(write)
        concerns = [command.get("writeConcern") for command in a.commands("insert")]
        assert concerns == [{"w": 2}, {"w": 2, "wtimeout": 500}]
        await client.run(Insert("db", "coll", {"_id": 1}, write_concern=WriteConcern(wtimeout=500)), timeout=5)
        assert "writeConcern" not in a.commands("insert")[-1]
