"""A client's machinery on a scripted deployment, with its discovery events."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._client.core import Core
from motorlite._client.world import World
from motorlite._execution.call import Call
from motorlite._options.options import client_options
from tests.support.core import run_command
from tests.support.events import Log, PoolLog, listeners

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection

    from motorlite._base.values import Address
    from motorlite._execution.operation import Operation
    from motorlite._topology.selection import Selector
    from motorlite._topology.server import Server
    from motorlite._topology.server_description import ServerDescription
    from motorlite.testing.scripted import ScriptedDeployment


class Client:
    """A client under test; `log` has the discovery events, `pool_log` those of the pools."""

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
        """The host of the selected server."""
        server = await self.core.topology.select(selector, deadline, avoid, self.now + limit)
        return server.address[0]

    async def run(self, operation: Operation[Any] | None = None, deadline: Deadline = NO_DEADLINE) -> Any:
        """Execute an operation, by default a ping."""
        return await self.core.executor.execute(operation or run_command(), Call(None, deadline))


@asynccontextmanager
async def client(
    deployment: ScriptedDeployment,
    *,
    uri: str | None = None,
    below: Callable[[int], int] = lambda _: 0,
    close: bool = True,
    **options: Any,
) -> AsyncIterator[Client]:
    """A client that has just started; at the end, it is closed and its deployment must have no open connection."""
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
    """Wait until `condition` holds, in steps of a hundredth of a second."""
    for _ in range(round(limit * 100)):
        if condition():
            return
        await anyio.sleep(0.01)
    raise AssertionError(f"the condition did not hold within {limit} s")
