"""Shell: selects the server of an attempt, and publishes its selection events (server selection, "Logging")."""

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

    from motorlite._execution.attempt import Attempt
    from motorlite._execution.deployment import Deployment
    from motorlite._execution.run import Run
    from motorlite._topology.server import Server
    from motorlite.monitoring import ServerSelectionEvent


async def select(
    deployment: Deployment, run: Run, attempt: Attempt, until: float, on_wait: Callable[[float], None] | None = None
) -> Server:
    """Wait for a suitable server, until the loop time `until`."""
    attempt.selection_until = until
    return await deployment.select(run.operation.selector, run.call.deadline, run.deprioritized, until, on_wait)


async def select_and_publish(
    deployment: Callable[[], Deployment],
    run: Run,
    attempt: Attempt,
    until: float,
    publish: Callable[[ServerSelectionEvent], None],
) -> Server:
    """Like `select`, with server selection events.

    `deployment`: returns the current deployment, which an SRV lookup may replace in the meantime.
    """
    operation = run.operation
    wanted = describe_selector(operation.selector)

    def facts() -> tuple[str, int, str, Any]:
        return operation.name, run.operation_id, wanted, deployment().description

    publish(ServerSelectionStartedEvent(*facts()))
    try:
        server = deployment().select_now(operation.selector, run.deprioritized)
        if server is None:
            server = await select(
                deployment(), run, attempt, until, lambda left: publish(ServerSelectionWaitingEvent(*facts(), left))
            )
    except BaseException as error:
        publish(ServerSelectionFailedEvent(*facts(), error))
        raise
    publish(ServerSelectionSucceededEvent(*facts(), server.address))
    return server
