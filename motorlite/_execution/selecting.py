"""Shell: chooses the server of an attempt, and tells of it where somebody listens (server selection, "Logging")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._topology.selection import describe_selector
from motorlite.monitoring import (
    ServerSelectionFailedEvent,
    ServerSelectionStartedEvent,
    ServerSelectionSucceededEvent,
    ServerSelectionWaitingEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._execution.run import Run
    from motorlite._topology.server import Server
    from motorlite._topology.topology import Topology
    from motorlite.monitoring import ServerSelectionEvent


async def select(topology: Topology, run: Run, until: float, on_wait: Callable[[float], None] | None = None) -> Server:
    """A suitable server, as soon as there is one, before the loop time `until`."""
    run.selection_until = until
    return await topology.select(run.operation.selector, run.deadline, run.deprioritized, until, on_wait)


async def select_and_tell(
    topology: Callable[[], Topology], run: Run, until: float, publish: Callable[[ServerSelectionEvent], None]
) -> Server:
    """As `select`, but everything that happens is told.

    `topology`: which one it is at the moment; it may be another one at the end, when SRV records had to be looked up.
    """
    operation = run.operation
    wanted = describe_selector(operation.selector)

    def facts() -> tuple[str, int, str, Any]:
        return operation.name, run.operation_id, wanted, topology().description

    publish(ServerSelectionStartedEvent(*facts()))
    try:
        server = topology().select_now(operation.selector, run.deprioritized)
        if server is None:
            server = await select(
                topology(), run, until, lambda left: publish(ServerSelectionWaitingEvent(*facts(), left))
            )
    except BaseException as error:
        publish(ServerSelectionFailedEvent(*facts(), error))
        raise
    publish(ServerSelectionSucceededEvent(*facts(), server.address))
    return server
