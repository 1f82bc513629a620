"""A client's machinery on a scripted deployment, with the events of its discovery."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from motorlite._api.composition import Core, World
from motorlite.deadline import NO_DEADLINE, Deadline
from motorlite.options import client_options
from tests.support.core import run_command
from tests.support.events import Log, PoolLog, listeners

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection

    from motorlite._execution.operation import Operation
    from motorlite._topology.selection import Selector
    from motorlite._topology.server import Server
    from motorlite._topology.server_description import ServerDescription
    from motorlite.testing.scripted import ScriptedDeployment
    from motorlite.values import Address


class Client:
    """What a test looks at; `log` has the events of discovery, `pool_log` those of the pools."""

    def __init__(self, core: Core, deployment: ScriptedDeployment, log: Log, pool_log: PoolLog) -> None:
        self.core = core
        self.deployment = deployment
        self.log = log
        self.pool_log = pool_log

    @property
    def now(self) -> float:
        return self.core.now()

    def server(self, host: str) -> Server:
        (found,) = (server for server in self.core.topology.servers if server.address[0] == host)
        return found

    def description(self, host: str) -> ServerDescription:
        return self.server(host).description

    def types(self) -> dict[str, str]:
        """The servers' types by host."""
        return {server.address[0]: server.description.server_type_name for server in self.core.topology.servers}

    async def select(
        self,
        selector: Selector,
        *,
        limit: float = 30.0,
        deadline: Deadline = NO_DEADLINE,
        avoid: Collection[Address] = (),
    ) -> str:
        """The host of the server that an operation would go to."""
        server = await self.core.topology.select(selector, deadline, avoid, self.now + limit)
        return server.address[0]

    async def run(self, operation: Operation | None = None, deadline: Deadline = NO_DEADLINE) -> Any:
        """Execute an operation; a ping without one."""
        return await self.core.executor.execute(operation or run_command(), None, deadline)


@asynccontextmanager
async def client(
    deployment: ScriptedDeployment,
    *,
    uri: str | None = None,
    below: Callable[[int], int] = lambda _: 0,
    close: bool = True,
    **options: Any,
) -> AsyncIterator[Client]:
    """A client that has just begun; closed at the end, and its deployment has no connection left then."""
    log, pool_log = Log(), PoolLog()
    chosen = client_options(uri or deployment.uri, event_listeners=[*listeners(log), pool_log], **options)
    core = Core(chosen, World(connector=deployment.connector, jitter=lambda: 1.0, below=below))
    core.enter()
    try:
        yield Client(core, deployment, log, pool_log)
    finally:
        if close:
            await core.close()
            await deployment.close()
    if close:
        remains = {server.address: len(server.open_connections) for server in deployment.servers.values()}
        assert not any(remains.values()), f"connections that were not closed: {remains}"


async def until(condition: Callable[[], bool], limit: float = 60.0) -> None:
    """Let time pass until `condition` holds, to a hundredth of a second."""
    for _ in range(round(limit * 100)):
        if condition():
            return
        await anyio.sleep(0.01)
    raise AssertionError(f"it did not happen within {limit} s")
