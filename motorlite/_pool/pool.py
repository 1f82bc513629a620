"""Shell: a connection pool: performs what `state.PoolState` decides, and publishes what happens.

Checking out an idle connection (`check_out_now`) and checking one in are synchronous. Establishing is done in the
background, bounded by connectTimeoutMS, so that an operation that is cancelled does not throw away a handshake.
"""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING, Any

from motorlite import monitoring as events
from motorlite._net.runtime import WaitTimeout
from motorlite._pool.connection import Connection
from motorlite._pool.effects import Abandon, Close, Drain, Establish
from motorlite._pool.establish import EstablishmentError
from motorlite._pool.requests import Request
from motorlite._pool.services import Purpose
from motorlite._pool.state import PoolClosedError, PoolState
from motorlite.errors import AutoReconnect, PoolClearedError, PyMongoError, WaitQueueTimeoutError
from motorlite.values import format_address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bson.objectid import ObjectId

    from motorlite._net.runtime import BackgroundTask, Host, Runtime
    from motorlite._pool.establish import Establisher
    from motorlite._pool.requests import Establishment
    from motorlite._pool.state import PoolOptions
    from motorlite.deadline import Deadline
    from motorlite.values import Address

_logger = logging.getLogger("motorlite.client")


class Pool:
    """The connections to one server."""

    def __init__(
        self,
        address: Address,
        options: PoolOptions,
        *,
        runtime: Runtime,
        host: Host,
        establisher: Establisher,
        on_error: Callable[[EstablishmentError, int], None],
        on_late_reply: Callable[[Address, Mapping[str, Any]], bool],
        publish: Callable[[events.PoolEvent], None] | None,
    ) -> None:
        self.address = address
        self.state = PoolState(address, options)
        self._options = options
        self._runtime = runtime
        self._host = host
        self._establisher = establisher
        # Called with every connection that could not be established, and the generation it was meant for.
        self._on_error = on_error
        # Called with every reply whose caller had stopped waiting; answers whether the connection is worth keeping.
        self._on_late_reply = on_late_reply
        # None: there is no listener and nothing is logged.
        self._publish = publish
        # The background tasks by what they establish.
        self._establishing: dict[Establishment, BackgroundTask] = {}
        # The background tasks by the connection whose late reply they wait for, and when they began.
        self._draining: dict[Connection, tuple[BackgroundTask, float]] = {}
        # How many late replies arrived, and how many were given up.
        self.replies_drained = 0
        self.replies_given_up = 0
        self._maintenance: BackgroundTask | None = None
        if publish is not None:
            publish(events.PoolCreatedEvent(address, options.given))

    # --- for operations ---

    def check_out_now(self) -> Connection | None:
        """A connection if one is idle and no other caller waits; None: call `check_out` at once."""
        state = self.state
        connection = state.take(self._runtime.now())
        if connection is None:
            # What was found to be dead is closed by `check_out`, after the event that begins it.
            return None
        if self._publish is not None:
            self._publish(events.ConnectionCheckOutStartedEvent(self.address))
        if state.effects:
            self._perform()
        if self._publish is not None:
            self._publish(events.ConnectionCheckedOutEvent(self.address, connection.id, 0.0))
        return connection

    async def check_out(self, deadline: Deadline, until: float) -> Connection:
        """A connection, as soon as it is this caller's turn.

        `until` is the loop time at which server selection and check-out together must be done (server selection
        specification); it and the deadline bound the wait, waitQueueTimeoutMS bounds it until a connection is being
        established for the caller.

        Raises:
            WaitQueueTimeoutError: no connection in time.
            PoolClearedError: the server failed meanwhile.
            PoolClosedError: the pool was closed.
            PyMongoError: why the connection that was being established for the caller failed.
        """
        started = self._runtime.now()
        if self._publish is not None:
            self._publish(events.ConnectionCheckOutStartedEvent(self.address))
        request = Request(
            self._runtime.waiter(),
            started,
            until=deadline.earliest(),
            operation_until=deadline.expires_at if deadline.is_set else None,
        )
        self.state.enqueue(request, started)
        self._perform()
        try:
            answer = await self._wait(request, started, min(until, deadline.expires_at), deadline)
        except WaitTimeout:
            raise self._timed_out(request, started) from None
        except BaseException as error:
            self._leave(request)
            self._failed_check_out(error, started)
            raise
        if isinstance(answer, Connection):
            if self._publish is not None:
                duration = self._runtime.now() - started
                self._publish(events.ConnectionCheckedOutEvent(self.address, answer.id, duration))
            return answer
        answer.address = self.address
        self._failed_check_out(answer, started)
        try:
            raise answer
        finally:
            del answer, request  # both have the error, whose traceback has this frame

    async def _wait(self, request: Request, started: float, until: float, deadline: Deadline) -> Any:
        waiter: Any = request.waiter
        # With timeoutMS it is ignored ("Validation and Overrides").
        limit = None if deadline.is_set else self._options.wait_queue_timeout
        if limit is None or started + limit >= until:
            return await waiter.wait(until)
        try:
            return await waiter.wait(started + limit)
        except WaitTimeout:
            if request.establishment is None:
                raise
        # The queue is behind it; what is left is the handshake of its own connection.
        again: Any = self._runtime.waiter()
        request.waiter = again
        return await again.wait(until)

    def _leave(self, request: Request) -> None:
        """The caller was cancelled: a connection that it was given meanwhile must not be lost."""
        now = self._runtime.now()
        waiter: Any = request.waiter
        given = waiter.take_back()
        if request.until == inf:
            self.state.pace.left(now - request.since, now)
        if isinstance(given, Connection):
            self.state.put_back(given, now)
        else:
            self.state.give_up(request, now)
        self._perform()

    def _timed_out(self, request: Request, started: float) -> WaitQueueTimeoutError:
        state = self.state
        now = self._runtime.now()
        phase = "queue" if request.establishment is None else "connecting"
        self.state.give_up(request, now)
        self._perform()
        # The first sentence, up to the numbers in it, is the load balancer specification's ("Connection Tracking").
        error = WaitQueueTimeoutError(
            f"Timeout waiting for connection from the connection pool. maxPoolSize: {self._options.max_size}, "
            f"connections in use by cursors: {state.count(Purpose.CURSOR)}, "
            f"connections in use by transactions: {state.count(Purpose.TRANSACTION)}, "
            f"connections in use by other operations: {state.count(Purpose.OTHER)}, idle: {len(state.idle)}, "
            f"being established: {len(state.connecting)}, more operations waiting: {len(state.queue)}, "
            f"waited for {format_address(self.address)}: {now - started:.3f} s"
        )
        error.phase = phase
        error.address = self.address
        self._failed_check_out(error, started)
        return error

    def _failed_check_out(self, error: BaseException, started: float) -> None:
        if self._publish is None:
            return
        if isinstance(error, WaitQueueTimeoutError):
            reason = events.ConnectionCheckOutFailedReason.TIMEOUT
        elif isinstance(error, PoolClosedError):
            reason = events.ConnectionCheckOutFailedReason.POOL_CLOSED
        else:
            reason = events.ConnectionCheckOutFailedReason.CONN_ERROR
        duration = self._runtime.now() - started
        self._publish(events.ConnectionCheckOutFailedEvent(self.address, reason, duration, error))

    def check_in(self, connection: Connection) -> None:
        """Give a connection back; a broken or stale one is closed."""
        state = self.state
        state.put(connection, self._runtime.now())
        if self._publish is not None:
            self._publish(events.ConnectionCheckedInEvent(self.address, connection.id))
        if state.effects:
            self._perform()

    def caller_left(self, connection: Connection) -> None:
        """The operation that uses `connection` was cancelled by a caller whose limit the driver cannot see."""
        self.state.caller_left(connection, self._runtime.now())

    # --- for the topology ---

    @property
    def generation(self) -> int:
        """The generation that new connections get."""
        return self.state.generation

    def is_stale(self, generation: int, service_id: ObjectId | None = None) -> bool:
        """Whether connections of `generation` (to this service behind a load balancer) are older than a clear."""
        return generation != self.state.generation_for(service_id)

    def ready(self) -> None:
        """The server was found to be usable: allow connections."""
        if not self.state.ready():
            return
        if self._publish is not None:
            self._publish(events.PoolReadyEvent(self.address))
        if self._maintenance is not None:
            # The first time its background work does so.
            self.state.populate()
            self._perform()
        elif self._options.min_size or self._options.max_idle_time is not None:
            self._maintenance = self._host.spawn(self._maintain)

    def clear(
        self,
        because: BaseException | None,
        *,
        interrupt_in_use: bool = False,
        service_id: ObjectId | None = None,
    ) -> None:
        """The server failed: make all connections stale and wait for `ready`.

        With `service_id` one service behind a load balancer failed: make the connections to it stale.
        """
        if service_id is None:
            tell = self.state.clear(because, interrupt_in_use=interrupt_in_use)
        else:
            tell = self.state.clear_service(service_id)
        if tell and self._publish is not None:
            self._publish(events.PoolClearedEvent(self.address, service_id, interrupt_in_use))
        self._perform()

    def close(self, *, is_server_gone: bool = False) -> None:
        """Close the pool; connections in use are closed as they are checked in.

        `is_server_gone`: the server left the deployment, so operations that wait here may try another one.
        """
        if not self.state.close(is_server_gone=is_server_gone):
            return
        for connection in self.state.in_use:
            if connection.purpose is Purpose.CURSOR:
                # It may never be checked in: its cursor may wait for an application that has forgotten it.
                connection.close()
        if self._maintenance is not None:
            self._maintenance.cancel()
        self._perform()
        if self._publish is not None:
            self._publish(events.PoolClosedEvent(self.address))

    def refuse_waiting(self) -> None:
        """The client is being closed: operations that wait for a connection get an error instead."""
        self.state.refuse_waiting()
        self._perform()

    def close_now(self) -> None:
        """The client, or its event loop, ends now: close every socket, also those in use."""
        in_use = list(self.state.in_use)
        self.close()
        for connection in in_use:
            # The server may have executed the operation, so this is not an InvalidOperation.
            connection.interrupt(AutoReconnect("the client was closed while the operation was in flight"))

    # --- performing ---

    def _perform(self) -> None:
        effects = self.state.effects
        while effects:
            effect = effects.pop(0)
            if isinstance(effect, Close):
                self._close_connection(effect.connection, effect.reason)
            elif isinstance(effect, Establish):
                self._start_establishing(effect.establishment)
            elif isinstance(effect, Abandon):
                self._abandon(effect.establishment, effect.reason)
            elif isinstance(effect, Drain):
                self._start_draining(effect)
            else:
                where = format_address(self.address)
                message = f"Connection to {where} interrupted due to server monitor timeout"
                effect.connection.interrupt(PoolClearedError(message))

    def _close_connection(self, connection: Connection, reason: str) -> None:
        connection.close()
        draining = self._draining.pop(connection, None)
        if draining is not None:
            task, started = draining
            task.cancel()
            self._tell_given_up(connection, started, None)
        self._tell_closed(connection.id, reason)

    # --- replies whose callers have stopped waiting ---

    def _start_draining(self, drain: Drain) -> None:
        connection = drain.connection
        if self._publish is not None:
            self._publish(events.PendingReplyStartedEvent(self.address, connection.id, connection.owed or 0))
        self._draining[connection] = self._host.spawn(self._drain, connection, drain.overdue_at), self._runtime.now()

    async def _drain(self, connection: Connection, overdue_at: float) -> None:
        request_id = connection.owed or 0
        try:
            reply = await connection.receive_owed(overdue_at)
            if reply is None:
                if connection in self._draining:
                    self.state.overdue(connection, self._runtime.now())
                    self._perform()
                if connection not in self._draining:
                    return  # given up, now or in the moment in which it became overdue
                reply = await connection.receive_owed()
                assert reply is not None
        except PyMongoError as error:
            draining = self._draining.pop(connection, None)
            if draining is None:
                return  # given up in the moment in which it failed
            self._tell_given_up(connection, draining[1], error)
            self.state.drain_failed(connection, self._runtime.now())
            self._perform()
            return
        draining = self._draining.pop(connection, None)
        if draining is None:
            return  # given up in the moment in which it was done
        now = self._runtime.now()
        self.replies_drained += 1
        if self._publish is not None:
            duration = now - draining[1]
            self._publish(events.PendingReplySucceededEvent(self.address, connection.id, request_id, duration))
        try:
            is_worth_keeping = self._on_late_reply(self.address, reply)
        except Exception:  # a bug: the connection goes back all the same, to be closed
            _logger.exception("a late reply of %s was not learned from", format_address(self.address))
            is_worth_keeping = False
        if not is_worth_keeping:
            connection.close()
        self.state.drained(connection, now)
        self._perform()

    def _tell_given_up(self, connection: Connection, started: float, error: PyMongoError | None) -> None:
        self.replies_given_up += 1
        if self._publish is not None:
            duration = self._runtime.now() - started
            request_id = connection.owed or 0
            self._publish(events.PendingReplyFailedEvent(self.address, connection.id, request_id, duration, error))

    # --- connections that are being established ---

    def _start_establishing(self, establishment: Establishment) -> None:
        if self._publish is not None:
            self._publish(events.ConnectionCreatedEvent(self.address, establishment.connection_id))
        self._establishing[establishment] = self._host.spawn(self._establish, establishment)

    def _abandon(self, establishment: Establishment, reason: str) -> None:
        # Its task may end without ever having begun, so the event is published here.
        self._establishing.pop(establishment).cancel()
        self._tell_closed(establishment.connection_id, reason)

    async def _establish(self, establishment: Establishment) -> None:
        started = self._runtime.now()
        connect_timeout = self._options.connect_timeout
        until = started + connect_timeout if connect_timeout else inf
        sponsor = establishment.request
        try:
            connection = await self._establisher.open(
                self.address,
                establishment.connection_id,
                establishment.generation,
                until,
                authenticate=True,
                operation_until=None if sponsor is None else sponsor.operation_until,
                join=self.state.services.join,
            )
        except EstablishmentError as failure:
            self._not_established(establishment, failure.error, failure)
        except Exception as error:
            # A bug, or one of what the application has a part in: the operation that waits gets an error of its own.
            _logger.exception("a connection to %s could not be made", format_address(self.address))
            wrapped = PoolClearedError(f"a connection could not be made: {error!r}")
            wrapped.__cause__ = error.with_traceback(None)
            self._not_established(establishment, wrapped, None)
        except BaseException as error:
            # The end of the client: the operation that waits must not wait for ever.
            self._not_established(
                establishment, PoolClearedError(f"connecting was abandoned: {type(error).__name__}"), None
            )
            raise
        else:
            self._is_established(establishment, connection, started)

    def _is_established(self, establishment: Establishment, connection: Connection, started: float) -> None:
        if self._establishing.pop(establishment, None) is None:
            connection.close()  # abandoned in the moment in which it was done
            return
        now = self._runtime.now()
        self.state.pace.connected(now - started, now)
        if self._publish is not None:
            self._publish(events.ConnectionReadyEvent(self.address, connection.id, now - started))
        self.state.established(establishment, connection, now)
        self._perform()

    def _not_established(
        self, establishment: Establishment, error: PyMongoError, failure: EstablishmentError | None
    ) -> None:
        if self._establishing.pop(establishment, None) is None:
            return  # abandoned
        self.state.failed(establishment, error)
        if failure is not None:
            self._on_error(failure, failure.generation)
            if failure.service_id is not None:
                self.state.services.leave(failure.service_id)
        self._tell_closed(establishment.connection_id, events.ConnectionClosedReason.ERROR, error)
        self.state.serve(self._runtime.now())
        self._perform()

    def _tell_closed(self, connection_id: int, reason: str, error: PyMongoError | None = None) -> None:
        if self._publish is not None:
            self._publish(events.ConnectionClosedEvent(self.address, connection_id, reason, error))

    async def _maintain(self) -> None:
        """Keep minPoolSize and maxIdleTimeMS until the pool is closed."""
        while True:
            try:
                self.state.prune(self._runtime.now())
                self.state.populate()
                self._perform()
            except Exception:  # a bug: the next round may do without it
                _logger.exception("the maintenance of the pool of %s failed; it goes on", format_address(self.address))
            await self._runtime.sleep(self._options.maintenance_interval)
