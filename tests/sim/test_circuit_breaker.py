"""Circuit breakers from end to end: what opens them, what they stop, how they close, and what they leave alone."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._admission.circuit_breaker import Outcome
from motorlite._operations.cursors import KillCursors
from motorlite.errors import (
    AutoReconnect,
    CircuitBreakerOpenError,
    DuplicateKeyError,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
)
from motorlite.overload import CircuitBreaker, WaitQueue
from motorlite.read_preferences import ReadPreference
from motorlite.testing.cancellation import cancel_at
from motorlite.testing.scripted import Close, Hang, Reply, ScriptedDeployment, failure
from motorlite.write_concern import WriteConcern
from tests.support.cancellation import settle
from tests.support.core import (
    BAD_VALUE,
    HOST_UNREACHABLE,
    NEXT_BATCH,
    OVERLOADED,
    A,
    Driver,
    driver,
    fails,
    find,
    get_more,
    hello_delay,
    insert,
    later,
    replica_set,
    run_command,
)
from tests.support.kept_errors import garbage, without_collector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from motorlite.testing.scripted import Answer

pytestmark = pytest.mark.anyio

# Opens at the second failure, since the command that connects is a success.
SENSITIVE = CircuitBreaker(min_operations=3)
ONLY_RETRIES = CircuitBreaker(min_operations=3, gates_first_attempts=False)
ANSWERS_OF_PING = {"ok": 1}


KILL = KillCursors("db", "coll", [7], address=A)


def state(client: Driver, host: str = "a") -> str:
    stats = client.core.stats().servers[client.server(host).address].breaker
    assert stats is not None
    return stats.state


async def open_breaker(client: Driver, *, answer: Answer = HOST_UNREACHABLE) -> None:
    """Fail two commands, none of which is retried."""
    server = client.deployment["a:1"]
    server.on("ping", OVERLOADED_ONCE)
    for _ in range(2):
        await fails(client, run_command())
    server.on("ping", ANSWERS_OF_PING)
    assert state(client) == "open"
    server.received.clear()
    client.recorder.clear()


@asynccontextmanager
async def broken(
    deployment: ScriptedDeployment | None = None, *, circuit_breaker: CircuitBreaker = SENSITIVE, **options: Any
) -> AsyncIterator[Driver]:
    """A client whose breaker of the server a is open."""
    async with driver(deployment or replica_set(), circuit_breaker=circuit_breaker, **options) as client:
        await open_breaker(client)
        yield client


# An overload error without RetryableError, so that nothing retries it.
OVERLOADED_ONCE = failure(462, "SystemOverloadedError")


# --- open ---


async def test_open_it_fails_at_once_without_sending() -> None:
    async with driver(replica_set(), circuit_breaker=SENSITIVE) as client:
        client.drain_to(10)
        await open_breaker(client)
        await anyio.sleep(1.5)
        tokens = client.tokens
        error = await fails(client, run_command())
        assert isinstance(error, CircuitBreakerOpenError)
        assert error.retry_after == pytest.approx(3.5)
        assert error.address == A
        assert (error.attempts, error.retry_refusal, error.phase) == (1, "circuit breaker", None)
        assert str(error) == (
            "the circuit breaker of a:1 is open: too many operations failed there "
            "(server a:1; not retried: circuit breaker)"
        )
        assert not error.error_labels
        for make in (find, insert):
            assert isinstance(await fails(client, make()), CircuitBreakerOpenError)
        assert client.tokens == tokens
        assert not client.deployment["a:1"].received
        # Not even a connection was asked for.
        assert not client.recorder.words("check-out")


async def test_it_does_not_queue() -> None:
    """With all connections in use, what the breaker refuses does not wait for one."""
    async with broken(maxPoolSize=1) as client:
        connection = client.server().pool.check_out_now()
        assert connection is not None
        with anyio.fail_after(0.1):
            error = await fails(client, find())
        assert isinstance(error, CircuitBreakerOpenError)
        client.server().pool.check_in(connection)


async def test_without_the_option_nothing_is_counted() -> None:
    deployment = replica_set()
    deployment["a:1"].on("ping", OVERLOADED_ONCE)
    async with driver(deployment) as client:
        for _ in range(100):
            assert isinstance(await fails(client, run_command()), OperationFailure)
        assert client.server().gate is None
        assert client.core.stats().servers[A].breaker is None


# --- what waits for a connection when it opens ---


class Outcomes:
    """What came of operations that ran at the same time."""

    def __init__(self, client: Driver) -> None:
        self._client = client
        self.errors: list[PyMongoError] = []
        self.done = 0

    async def run(self, make: Callable[[], Any]) -> None:
        try:
            await self._client.run(make())
        except PyMongoError as error:
            self.errors.append(error)
        else:
            self.done += 1

    @property
    def refused(self) -> list[CircuitBreakerOpenError]:
        return [error for error in self.errors if isinstance(error, CircuitBreakerOpenError)]


QUEUES = pytest.mark.parametrize(
    "queue",
    [None, WaitQueue("queue"), WaitQueue("queue", ordering="priority"), WaitQueue("queue", ordering="adaptive")],
    ids=["unbounded", "fifo", "priority", "adaptive"],
)


@pytest.mark.virtual_time
@QUEUES
async def test_what_waits_when_it_opens_is_refused(queue: WaitQueue | None) -> None:
    """Nothing of it is sent, although a connection becomes free at that moment."""
    options: dict[str, Any] = {
        "maxPoolSize": 1,
        "wait_queue": queue,
        "circuit_breaker": CircuitBreaker(min_operations=2),
    }
    async with driver(replica_set(), **options) as client:
        server = client.deployment["a:1"]
        server.on("ping", later(OVERLOADED_ONCE, 1.0), ANSWERS_OF_PING)
        outcomes = Outcomes(client)
        async with anyio.create_task_group() as group:
            group.start_soon(outcomes.run, run_command)
            await anyio.sleep(0.5)
            for make in (find, insert, run_command) * 7:
                group.start_soon(outcomes.run, make)
        # The command that connects was a success: one failure of two attempts opens it.
        assert state(client) == "open"
        assert [one.name for one in server.received] == ["ping"]
        assert len(outcomes.refused) == 21
        for error in outcomes.refused:
            assert (error.address, error.reached_server, error.attempts) == (A, False, 1)
            assert error.wait_time == pytest.approx(0.5)
            assert error.retry_after == pytest.approx(5.0)
            assert not error.timeout
        assert str(outcomes.refused[0]) == (
            "the circuit breaker of a:1 opened while the operation waited for a connection: too many operations "
            "failed there (server a:1; not retried: circuit breaker)"
        )
        stats = client.core.stats().servers[A]
        assert stats.breaker is not None
        assert stats.breaker.refused == 21
        assert (stats.waiting, stats.in_use, stats.operations) == (0, 0, 0)
        if stats.queue is not None:
            assert (stats.queue.depth, stats.queue.memory) == (0, 0)
        # A probe passes later, and closes it.
        await anyio.sleep(5.1)
        await client.run(run_command())
        assert state(client) == "closed"


@pytest.mark.virtual_time
async def test_what_waits_for_a_connection_that_is_being_opened_is_refused() -> None:
    async with driver(replica_set(), circuit_breaker=CircuitBreaker(min_operations=2)) as client:
        server = client.deployment["a:1"]
        server.on("ping", later(OVERLOADED_ONCE, 1.0))
        hello_delay(client.deployment, "a:1", 3.0)
        outcomes = Outcomes(client)
        async with anyio.create_task_group() as group:
            group.start_soon(outcomes.run, run_command)
            await anyio.sleep(0.1)
            group.start_soon(outcomes.run, find)
            started = client.now
        assert client.now - started < 1.0
        assert len(outcomes.refused) == 1
        assert not server.times("find")
        # The connection is kept.
        await anyio.sleep(5)
        assert client.core.stats().servers[A].idle == 2


@pytest.mark.virtual_time
async def test_what_was_begun_waits_on_when_it_opens() -> None:
    options: dict[str, Any] = {"maxPoolSize": 1, "circuit_breaker": CircuitBreaker(min_operations=2)}
    async with driver(replica_set(), **options) as client:
        server = client.deployment["a:1"]
        server.on("ping", later(OVERLOADED_ONCE, 1.0))
        server.on("getMore", NEXT_BATCH)
        outcomes = Outcomes(client)
        async with anyio.create_task_group() as group:
            group.start_soon(outcomes.run, run_command)
            await anyio.sleep(0.5)
            for make in (find, get_more, find, lambda: KILL):
                group.start_soon(outcomes.run, make)
        assert len(outcomes.refused) == 2
        names = [one.name for one in server.received]
        assert (names[0], set(names[1:])) == ("ping", {"getMore", "killCursors"})
        assert len(names) == 3


@pytest.mark.virtual_time
async def test_where_only_retries_are_stopped_only_they_are_refused_in_the_queue() -> None:
    breaker = CircuitBreaker(min_operations=3, gates_first_attempts=False, failure_rate=0.3)
    async with driver(replica_set(), maxPoolSize=1, circuit_breaker=breaker) as client:
        server = client.deployment["a:1"]
        # Its error is no failure of the server. The retry waits behind three pings, and the first opens the breaker.
        server.on("find", later(HOST_UNREACHABLE, 1.0))
        server.on("ping", later(OVERLOADED_ONCE, 1.0), ANSWERS_OF_PING)
        outcomes = Outcomes(client)
        async with anyio.create_task_group() as group:
            group.start_soon(outcomes.run, find)
            await anyio.sleep(0.1)
            for _ in range(3):
                group.start_soon(outcomes.run, run_command)
        assert outcomes.done == 2
        assert (len(server.times("find")), len(server.times("ping"))) == (1, 3)
        assert not outcomes.refused
        (error,) = [error for error in outcomes.errors if error.retry_refusal == "circuit breaker"]
        assert isinstance(error, OperationFailure)
        assert error.code == 6
        assert isinstance(error.__cause__, CircuitBreakerOpenError)


@pytest.mark.virtual_time
async def test_a_waiting_probe_is_refused_when_another_one_fails() -> None:
    breaker = CircuitBreaker(min_operations=2, probes=2)
    async with driver(replica_set(), maxPoolSize=1, circuit_breaker=breaker) as client:
        await fail_once(client)
        await anyio.sleep(5.1)
        server = client.deployment["a:1"]
        server.received.clear()
        server.on("ping", later(OVERLOADED_ONCE, 1.0))
        outcomes = Outcomes(client)
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(outcomes.run, run_command)
        assert len(server.times("ping")) == 1
        assert len(outcomes.refused) == 1
        assert state(client) == "open"


@pytest.mark.virtual_time
async def test_a_connection_that_was_handed_over_as_it_opened_is_not_used() -> None:
    """Two replies arrive in one turn of the event loop: the first frees a connection, the second opens the breaker."""
    breaker = CircuitBreaker(min_operations=3, failure_rate=0.6)
    async with driver(replica_set(), maxPoolSize=1, circuit_breaker=breaker) as client:
        pool, gate = client.server().pool, client.server().gate
        assert gate is not None
        assert gate.breaker is not None
        held = pool.check_out_now()
        assert held is not None
        outcomes = Outcomes(client)
        async with anyio.create_task_group() as group:
            group.start_soon(outcomes.run, run_command)
            await anyio.sleep(0.5)
            pool.check_in(held)
            for _ in range(3):
                visit = gate.enter(gate.breaker, client.now, is_retry=False)
                if visit is not None:
                    gate.leave(visit, Outcome.FAILURE, client.now)
        assert len(outcomes.refused) == 1
        assert not client.deployment["a:1"].received
        assert client.core.stats().servers[A].idle == 1


async def fail_once(client: Driver) -> None:
    """Open a breaker with min_operations=2."""
    client.deployment["a:1"].on("ping", OVERLOADED_ONCE)
    await fails(client, run_command())
    assert state(client) == "open"


# --- retries only ---


async def test_without_the_gate_for_first_attempts_only_retries_are_stopped() -> None:
    deployment = replica_set()
    async with broken(deployment, circuit_breaker=ONLY_RETRIES) as client:
        deployment["a:1"].on("find", HOST_UNREACHABLE)
        error = await fails(client, find())
        # The error is the server's: it says more than that the retry was refused.
        assert isinstance(error, OperationFailure)
        assert error.code == 6
        assert error.retry_refusal == "circuit breaker"
        assert isinstance(error.__cause__, CircuitBreakerOpenError)
        assert error.__cause__.retry_after == pytest.approx(5.0)
        assert len(deployment["a:1"].times("find")) == 1
        assert client.core.stats().refusals["circuit breaker"] == 1


async def test_the_breaker_may_open_between_an_attempt_and_its_retry() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", OVERLOADED)
    async with driver(deployment, circuit_breaker=ONLY_RETRIES) as client:
        client.drain_to(10)
        error = await fails(client, find())
        # The second failure opened it, so the third attempt was not made: 3 attempts less than without it.
        assert len(deployment["a:1"].times("find")) == 2
        assert isinstance(error, OperationFailure)
        assert error.code == 462
        assert error.retry_refusal == "circuit breaker"
        assert client.tokens == 9, "the token of the retry that was not sent is back"


# --- what counts ---


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Close(), AutoReconnect),
        (failure(50), OperationFailure),
        (OVERLOADED_ONCE, OperationFailure),
        (Hang(), NetworkTimeout),
        ("refused connections", AutoReconnect),
    ],
    ids=["network", "server timeout", "overload", "timeout of the client", "refused connections"],
)
async def test_failures_that_speak_about_the_server(answer: Any, kind: type[Exception]) -> None:
    # A standalone server stays selectable after the check that follows a network error.
    deployment = ScriptedDeployment()
    server = deployment["a:1"]
    async with driver(deployment, circuit_breaker=SENSITIVE, retryReads=False, maxAdaptiveRetries=0) as client:
        if answer == "refused connections":
            server.drop_connections()
            server.is_down = True
        else:
            server.on("ping", answer)
        for _ in range(2):
            assert isinstance(await fails(client, run_command(), timeout=1.0), kind)
        assert isinstance(await fails(client, run_command()), CircuitBreakerOpenError)


async def test_replies_are_successes_even_errors() -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", {"n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "twice"}]})
    deployment["a:1"].on("ping", BAD_VALUE)
    async with driver(deployment, circuit_breaker=SENSITIVE) as client:
        for _ in range(5):
            assert isinstance(await fails(client, insert()), DuplicateKeyError)
            await fails(client, run_command())
        breaker = client.core.stats().servers[A].breaker
        assert breaker is not None
        # One command of the start is counted too.
        assert (breaker.state, breaker.operations, breaker.failures) == ("closed", 11, 0)


async def test_state_changes_are_the_topologys_business() -> None:
    deployment = replica_set(servers=2)
    deployment["a:1"].on("ping", failure(10107))
    async with driver(deployment, circuit_breaker=SENSITIVE) as client:
        for _ in range(5):
            await fails(client, run_command())
        assert state(client) == "closed"


# --- half-open ---


async def test_probes_wait_in_the_queue_as_all_do() -> None:
    async with broken(maxPoolSize=1) as client:
        await anyio.sleep(5)
        pool = client.server().pool
        connection = pool.check_out_now()
        assert connection is not None
        async with anyio.create_task_group() as group:
            group.start_soon(client.run, run_command())
            await anyio.sleep(1)
            assert len(pool.state.queue) == 1
            error = await fails(client, run_command())
            assert isinstance(error, CircuitBreakerOpenError)
            assert (error.retry_after, "half-open: probes are under way" in str(error)) == (1.0, True)
            pool.check_in(connection)
        assert state(client) == "closed"
        assert client.recorder.words("circuit") == ["circuit breaker half opened", "circuit breaker closed"]
        assert client.core._limits is not None
        assert not client.core._limits.gates.broken, "selection has nothing to do while all are closed"


@pytest.mark.parametrize("late", [False, True])
async def test_a_probe_that_is_cancelled_anywhere(late: bool) -> None:
    point = 0
    while True:
        point += 1
        async with driver(replica_set(), circuit_breaker=SENSITIVE) as client:
            await open_breaker(client)
            client.deployment["a:1"].drop_connections()
            client.deployment["a:1"].on("ping", Reply({"ok": 1}, 0.01))
            await anyio.sleep(5)
            was_cancelled = await cancel_at(lambda: client.run(run_command()), point, late=late)
            await settle()
            # Whatever happened, the next one is not refused, and closes the breaker.
            await client.run(run_command())
            assert state(client) == "closed"
        if not was_cancelled:
            break
    assert point > 1


async def test_unacknowledged_writes_prove_nothing() -> None:
    async with broken() as client:
        await anyio.sleep(5)
        assert await client.run(insert(write_concern=WriteConcern(w=0))) is None
        assert state(client) == "half-open"


# --- selection ---


async def test_other_servers_are_preferred() -> None:
    deployment = ScriptedDeployment(["a:1", "b:1"], mongos=True)
    async with broken(deployment) as client:
        for _ in range(5):
            await client.run(run_command())
        assert not deployment["a:1"].received
        assert len(deployment["b:1"].times("ping")) == 5
        # From then on the first one gets its share again, and with it its probe.
        await anyio.sleep(5)
        await client.run(run_command())
        assert len(deployment["a:1"].times("ping")) == 1
        assert state(client) == "closed"
        for server in deployment.servers.values():
            server.on("ping", OVERLOADED_ONCE)
        while "closed" in (state(client), state(client, "b")):
            await fails(client, run_command())
        assert isinstance(await fails(client, run_command()), CircuitBreakerOpenError), "all are open"


async def test_a_secondary_serves_reads_that_prefer_the_primary() -> None:
    deployment = replica_set(servers=2)
    async with broken(deployment) as client:
        assert await client.run(find(selector=ReadPreference.PRIMARY_PREFERRED)) is not None
        assert len(deployment["b:1"].times("find")) == 1
        assert isinstance(await fails(client, find()), CircuitBreakerOpenError)


# --- monitors, housekeeping, life cycle ---


async def test_monitors_are_not_affected() -> None:
    deployment = replica_set()
    async with broken(deployment, circuit_breaker=CircuitBreaker(min_operations=3, open_for=100.0)) as client:
        client.log.clear()
        hellos = len(deployment["a:1"].hellos)
        await anyio.sleep(60)
        assert len(deployment["a:1"].hellos) - hellos >= 5
        assert not client.log.words("failed")
        assert client.types() == {"a": "RSPrimary"}
        assert state(client) == "open"


# --- events, log lines, figures ---


async def test_events_and_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="motorlite.circuitBreaker")
    deployment = replica_set()
    deployment["a:1"].on("ping", OVERLOADED_ONCE)
    async with driver(deployment, circuit_breaker=SENSITIVE) as client:
        for _ in range(2):
            await fails(client, run_command())
        await anyio.sleep(5)
        deployment["a:1"].on("ping", {"ok": 1})
        await client.run(run_command())
    lines = [(record.levelname, record.getMessage()) for record in caplog.records if "circuit" in record.name]
    assert lines == [
        ("WARNING", "Circuit breaker of a:1 opened: 2 of 3 attempts failed. Probes pass after 5000.0 ms"),
        ("INFO", "Circuit breaker of a:1 lets probes pass"),
        ("INFO", "Circuit breaker of a:1 closed after 1 successful probes"),
    ]


async def test_figures() -> None:
    async with broken() as client:
        for _ in range(3):
            await fails(client, find())
        await anyio.sleep(2)
        breaker = client.core.stats().servers[A].breaker
        assert breaker is not None
        assert (breaker.state, breaker.opened, breaker.refused, breaker.operations) == ("open", 1, 3, 0)
        assert breaker.retry_after == pytest.approx(3.0)


async def test_refused_operations_keep_nothing_alive() -> None:
    async with broken() as client:
        with without_collector():
            for _ in range(3):
                with pytest.raises(CircuitBreakerOpenError):
                    await client.run(find())
            assert not garbage()
