"""Shell: waits for the server and the connection of an attempt when neither is at hand.

Publishes the selection events (server selection, "Logging").
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from motorlite._admission.pool_queue import Ticket
from motorlite._base.deadline import NO_DEADLINE
from motorlite._topology.selection import describe_selector
from motorlite.monitoring import (
    ServerSelectionFailedEvent,
    ServerSelectionStartedEvent,
    ServerSelectionSucceededEvent,
    ServerSelectionWaitingEvent,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address
    from motorlite._execution.run import Attempt, Run
    from motorlite._observe.publishing import Publisher
    from motorlite._topology.selection import Selector
    from motorlite._topology.topology import Server
    from motorlite._topology.topology_description import TopologyDescription


async def select(
    deployment: Deployment,
    run: Run,
    attempt: Attempt,
    now: float,
    selection_timeout: float,
    on_wait: Callable[[float], None] | None = None,
) -> Server:
    """Wait up to `selection_timeout` seconds for a suitable server, if the operation does. `on_wait` is called then."""
    attempt.waits(now)
    attempt.selection_until = until = now + selection_timeout
    limit = until if run.operation.waits_for_server else None
    return await deployment.select(run.selector, run.call.deadline, run.deprioritized, limit, on_wait)


async def select_and_publish(
    deployment: Callable[[], Deployment],
    run: Run,
    attempt: Attempt,
    now: float,
    selection_timeout: float,
    publish: Publisher,
) -> Server:
    """Like `select`, with server selection events.

    `deployment`: returns the current deployment, which an SRV lookup may replace in the meantime.
    """
    operation = run.operation
    selector = run.selector
    if not publish.is_detailed:  # only waits are logged
        found = deployment().select_now(selector, run.deprioritized)
        if found is not None:
            return found
    wanted = describe_selector(selector)
    attempt.waits(now)

    def facts() -> tuple[str, int, str, Any]:
        return operation.name, run.operation_id, wanted, deployment().description

    def on_wait(left: float) -> None:
        publish(ServerSelectionWaitingEvent(*facts(), left))

    publish(ServerSelectionStartedEvent(*facts()))
    try:
        server = deployment().select_now(selector, run.deprioritized)
        if server is None:
            server = await select(deployment(), run, attempt, now, selection_timeout, on_wait)
    except BaseException as error:
        publish(ServerSelectionFailedEvent(*facts(), error))
        raise
    publish(ServerSelectionSucceededEvent(*facts(), server.address))
    return server


def check_out(server: Server, run: Run, attempt: Attempt, now: float, selection_timeout: float) -> Awaitable[Any]:
    """Wait for a connection to `server`. `selection_timeout` is in seconds. To be awaited at once.

    With timeoutMS, selection and checkout share serverSelectionTimeoutMS (CSOT, "Server Selection").

    Returns:
        What the pool's `received` expects.
    """
    deadline, until = run.call.deadline, inf
    if attempt.waited_from is None:  # as `waits`, without the call
        attempt.waited_from = now
    else:
        attempt.asked_at = now
    if deadline is NO_DEADLINE and server.gate is None:
        request = attempt.request = server.pool.ask(now)
        if request is not None:
            return request.waiter.wait(inf)
    if deadline.is_set:
        until = now + selection_timeout if attempt.selection_until == inf else attempt.selection_until
    gate, pool = server.gate, server.pool
    ticket = _ticket(run, server, now) if gate is not None or pool.is_bounded else None
    return pool.check_out(deadline, until, now, ticket)


def _ticket(run: Run, server: Server, now: float) -> Ticket:
    """Return what the configured wait queue and the breaker of `server` need to know."""
    gate = server.gate
    run.entered = min(run.entered, now)
    options, operation = run.call.options, run.operation
    return Ticket(
        run.entered,
        operation.size_hint,
        options.priority,
        options.assigned_priority,
        is_admitted=operation.is_admitted,
        options=options.wait_queue,
        is_gated=gate is not None and gate.stops(is_retry=run.is_retry, is_admitted=operation.is_admitted),
    )


# The executor's interface to a deployment.


class Deployment(Protocol):
    """A topology, or its placeholder until the seeds are known."""

    description: TopologyDescription

    def select_now(self, selector: Selector, deprioritized: Collection[Address] = ()) -> Server | None:
        """Return a suitable server, or None if none is known right now."""
        ...

    def select(
        self,
        selector: Selector,
        deadline: Deadline,
        deprioritized: Collection[Address],
        until: float | None,
        on_wait: Callable[[float], None] | None = None,
    ) -> Coroutine[Any, Any, Server]:
        """Wait for a suitable server, until the loop time `until` or the deadline; None: do not wait."""
        ...

    def back_off(self, selector: Selector, failed: Address, until: float) -> Coroutine[Any, Any, None]:
        """Wait until the loop time `until`, or until a server other than `failed` becomes suitable."""
        ...

    def pause(self, until: float) -> Coroutine[Any, Any, None]:
        """Wait until the loop time `until`, or until the client closes."""
        ...

    def stop(self) -> None:
        """Release all waiters. Operations in flight continue."""
        ...
