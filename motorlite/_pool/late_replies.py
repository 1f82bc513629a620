"""Shell: what happens to late replies: the pool waits for them, so that their connections can be used again.

`worth_waiting_until` of `_execution.building` says how long each is worth waiting for.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from motorlite import monitoring as events
from motorlite._base.values import format_address
from motorlite.errors import PyMongoError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._base.values import Address
    from motorlite._connection.connection import Connection
    from motorlite._net.runtime import BackgroundTask, Host, Runtime
    from motorlite._pool.state import Drain, PoolState

_logger = logging.getLogger("motorlite.client")


@dataclass(eq=False, repr=False)
class LateReplies:
    """The late replies of one pool.

    Attributes:
        drained: The number of replies that arrived.
        given_up: The number of those that were given up.
    """

    address: Address
    state: PoolState
    runtime: Runtime
    host: Host
    # Called with every late reply; returns whether the connection is worth keeping.
    learn: Callable[[Address, Mapping[str, Any]], bool]
    # Performs the effects of the state.
    perform: Callable[[], None]
    # False if there is no listener and nothing is logged.
    publish: Callable[[events.PoolEvent], None] | None
    # Background tasks with their start times, by the connection whose reply they wait for.
    _tasks: dict[Connection, tuple[BackgroundTask, float]] = field(default_factory=dict)
    drained: int = 0
    given_up: int = 0

    def start(self, drain: Drain) -> None:
        """Wait in the background for the reply that a connection still owes."""
        connection = drain.connection
        if self.publish:
            self.publish(events.PendingReplyStartedEvent(self.address, connection.id, connection.owed or 0))
        name = f"late reply {format_address(self.address)}"
        task = self.host.spawn(self._drain, connection, drain.overdue_at, name=name)
        self._tasks[connection] = task, self.runtime.now()

    def give_up(self, connection: Connection) -> None:
        """Stop waiting for the reply on a connection that is being closed, if it owes one."""
        waiting = self._tasks.pop(connection, None)
        if waiting is not None:
            task, started = waiting
            task.cancel()
            self._gave_up(connection, started, None)

    async def _drain(self, connection: Connection, overdue_at: float) -> None:
        request_id = connection.owed or 0
        try:
            reply = await connection.receive_owed(overdue_at)
            if reply is None:
                if connection in self._tasks:
                    self.state.overdue(connection, self.runtime.now())
                    self.perform()
                if connection not in self._tasks:
                    return  # given up, now or at the moment it became overdue
                reply = await connection.receive_owed()
                assert reply is not None
        except PyMongoError as error:
            waiting = self._tasks.pop(connection, None)
            if waiting is None:
                return  # given up at the moment it failed
            if error.address is None:
                error.address = self.address
            self._gave_up(connection, waiting[1], error)
            self.state.drain_failed(connection, self.runtime.now())
            self.perform()
            return
        waiting = self._tasks.pop(connection, None)
        if waiting is None:
            return  # given up at the moment it completed
        now = self.runtime.now()
        self.drained += 1
        if self.publish:
            duration = now - waiting[1]
            self.publish(events.PendingReplySucceededEvent(self.address, connection.id, request_id, duration))
        try:
            is_worth_keeping = self.learn(self.address, reply)
        except Exception:  # a bug: the connection still goes back to the pool, to be closed
            _logger.exception("processing a late reply from %s failed", format_address(self.address))
            is_worth_keeping = False
        if not is_worth_keeping:
            connection.close()
        self.state.drained(connection, now)
        self.perform()

    def _gave_up(self, connection: Connection, started: float, error: PyMongoError | None) -> None:
        self.given_up += 1
        if self.publish:
            duration = self.runtime.now() - started
            request_id = connection.owed or 0
            self.publish(events.PendingReplyFailedEvent(self.address, connection.id, request_id, duration, error))
