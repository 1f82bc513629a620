"""A pool on a scripted server, without a topology around it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from motorlite._base.deadline import NO_DEADLINE
from motorlite._connection.establish import Establisher, HandshakeSettings
from motorlite._net.current import current_runtime
from motorlite._pool.pool import Pool
from tests.support.events import Recorder
from tests.support.pool_state import pool_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address
    from motorlite._connection.connection import Connection
    from motorlite._connection.establish import EstablishmentError
    from motorlite._net.runtime import Host, Runtime
    from motorlite.testing.scripted import ScriptedDeployment, ScriptedServer

INF = float("inf")


class PoolDriver:
    """The pool on its host, its published events and failed establishments.

    `StateDriver` drives the same pool without connections, and `Driver` a whole client.
    """

    def __init__(self, pool: Pool, server: ScriptedServer, runtime: Runtime, host: Host, log: Recorder) -> None:
        self.pool = pool
        self.server = server
        self.runtime = runtime
        self.host = host
        self.log = log
        self.failures: list[tuple[EstablishmentError, int]] = []
        # The topology's reaction to failures.
        self.on_error: Callable[[EstablishmentError, int], None] = lambda failure, generation: None
        # Replies that arrived after their caller had left.
        self.late_replies: list[Mapping[str, Any]] = []

    def note_failure(self, failure: EstablishmentError, generation: int) -> None:
        self.failures.append((failure, generation))
        self.on_error(failure, generation)

    def words(self, pattern: str = "") -> list[str]:
        return self.log.words(pattern)

    @property
    def now(self) -> float:
        return self.runtime.now()

    async def check_out(self, deadline: Deadline = NO_DEADLINE, until: float = INF) -> Connection:
        """Check a connection out as the executor does."""
        return self.pool.check_out_now() or await self.pool.check_out(deadline, until, self.now)

    async def check_outs(self, count: int) -> list[Connection]:
        return [await self.check_out() for _ in range(count)]

    async def idle(self, count: int = 1) -> list[Connection]:
        """Idle connections; the first one is taken first."""
        found = await self.check_outs(count)
        for connection in reversed(found):
            self.pool.check_in(connection)
        return found

    def spawn(self, function: Any, *args: Any) -> None:
        self.host.spawn(function, *args, name="test")


class Waiting:
    """A check-out in the background."""

    def __init__(self, subject: PoolDriver, deadline: Deadline = NO_DEADLINE, until: float = INF) -> None:
        self._subject = subject
        self._arguments = deadline, until
        self.connection: Connection | None = None
        self.error: BaseException | None = None
        self.ended_at: float | None = None
        self.scope = anyio.CancelScope()

    async def run(self) -> None:
        with self.scope:
            try:
                self.connection = await self._subject.check_out(*self._arguments)
            except Exception as error:
                self.error = error
            self.ended_at = self._subject.now


async def start(subject: PoolDriver, group: anyio.abc.TaskGroup, **arguments: Any) -> Waiting:
    """Start a check-out; return when its request is queued or answered."""
    waiting = Waiting(subject, **arguments)
    group.start_soon(waiting.run)
    await settle()
    return waiting


def slow(deployment: ScriptedDeployment, delay: float) -> None:
    """Make handshakes take `delay` seconds."""
    for server in deployment.servers.values():
        server.hello_delay = delay


async def settle() -> None:
    """Run all tasks that do not wait for time to pass."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def pool_on(
    deployment: ScriptedDeployment,
    *,
    ready: bool = True,
    settings: HandshakeSettings | None = None,
    runtime: Runtime | None = None,
    listen: bool = True,
    **options: Any,
) -> AsyncIterator[PoolDriver]:
    """A pool on the first server of `deployment`; at the end, it is closed and checked for leftovers."""
    runtime = runtime or current_runtime()
    log = Recorder()
    host = runtime.host("test", lambda: None)
    connector = deployment.connector(runtime, None)
    establisher = Establisher(runtime, connector, settings or HandshakeSettings(dict))
    address = deployment.addresses[0]
    failed: list[Callable[[EstablishmentError, int], None]] = []
    late: list[Mapping[str, Any]] = []

    def learn_late(address: Address, reply: Mapping[str, Any]) -> bool:
        late.append(reply)
        return True

    pool = Pool(
        address,
        pool_settings(**options),
        runtime=runtime,
        host=host,
        establisher=establisher,
        on_error=lambda failure, generation: failed[0](failure, generation),
        on_late_reply=learn_late,
        publish=log.publish if listen else None,
    )
    subject = PoolDriver(pool, deployment.servers[address], runtime, host, log)
    failed.append(subject.note_failure)
    subject.late_replies = late
    if ready:
        pool.ready()
        log.clear()
    try:
        yield subject
    finally:
        pool.close()
        await host.close()
        await deployment.close()
    assert not pool.state.connecting
    assert not pool.state.queue
    assert not pool.state.pending
    assert not pool.state.idle
    assert not pool._establishing
