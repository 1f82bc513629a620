"""Shell: a connection pool: performs the effects that `state.PoolState` decides on, and publishes events.

Checking out an idle connection (`check_out_now`) and checking one in are synchronous. Connections are established in
the background, bounded by connectTimeoutMS, so that a cancelled operation does not throw away a handshake.
"""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING, Any

from motorlite import monitoring as events
from motorlite._admission.pool_queue import Request, Ticket
from motorlite._base.deadline import NO_DEADLINE
from motorlite._base.values import format_address
from motorlite._connection.connection import Connection
from motorlite._connection.establish import EstablishmentError
from motorlite._connection.handshake import Purpose
from motorlite._net.runtime import WaitTimeout
from motorlite._net.waking import Waking
from motorlite._pool.late_replies import LateReplies
from motorlite._pool.state import Abandon, Close, Drain, Establish, PoolState, Refuse, breaker_opened
from motorlite._retry.backoff import server_base_backoff
from motorlite.errors import AutoReconnect, PoolClearedError, PoolClosedError, PyMongoError, WaitQueueTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bson.objectid import ObjectId

    from motorlite._admission.gate import Gate
    from motorlite._admission.pool_queue import Establishment
    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address
    from motorlite._connection.establish import Establisher
    from motorlite._net.runtime import BackgroundTask, Host, Runtime
    from motorlite._pool.state import PoolSettings

_logger = logging.getLogger("motorlite.client")


class Pool:
    """The connections to one server."""

    def __init__(
        self,
        address: Address,
        options: PoolSettings,
        *,
        runtime: Runtime,
        host: Host,
        establisher: Establisher,
        on_error: Callable[[EstablishmentError, int], None],
        on_late_reply: Callable[[Address, Mapping[str, Any]], bool],
        publish: Callable[[events.PoolEvent], None] | None,
        gate: Gate | None = None,
        on_gone: tuple[Callable[[], None], ...] = (),
    ) -> None:
        self.address = address
        self.state: PoolState = PoolState(address, options)
        # The breaker and the concurrency limit of the server; None if neither is configured.
        self.gate: Gate | None = gate
        if gate is not None:
            self.state.limit = gate.limit
            gate.refuse_waiting = self._refuse_gated
            if self.state.bounded is not None:
                self.state.bounded.limit = gate.limit
        # Called when the server leaves the deployment.
        self._on_gone = on_gone if gate is None else (*on_gone, gate.gone)
        self._options = options
        self._runtime = runtime
        self._waking = Waking(runtime)
        self._host = host
        self._establisher = establisher
        # Called with every failure to establish a connection, and the generation of that connection.
        self._on_error = on_error
        # False if there is no listener and nothing is logged.
        self._publish = publish
        # Background tasks by the connection that they establish.
        self._establishing: dict[Establishment, BackgroundTask] = {}
        self.late_replies: LateReplies = LateReplies(
            address, self.state, runtime, host, on_late_reply, self._perform, publish
        )
        self._maintenance: BackgroundTask | None = None
        self._has_limits = options.wait_queue is not None or options.wait_queue_timeout is not None
        if publish:
            publish(events.PoolCreatedEvent(address, options.given))

    # --- for operations ---

    def check_out_now(self) -> Connection | None:
        """Check out an idle connection if no other caller waits; if this returns None, call `check_out` at once."""
        state = self.state
        if state.queue.count:  # as `take` finds, too, but without a look at the clock
            return None
        connection = state.take(self._runtime.now())
        if connection is None:
            # `check_out` closes the connections that turned out to be dead, after it has published its started event.
            return None
        if self._publish:
            self._publish(events.ConnectionCheckOutStartedEvent(self.address))
        if state.effects:
            self._perform()
        if self._publish:
            self._publish(events.ConnectionCheckedOutEvent(self.address, connection.id, 0.0))
        return connection

    def ask(self, now: float) -> Request | None:
        """Begin to wait for a connection without a limit, and without the coroutine of `check_out`.

        Pass what `waiter.wait(inf)` of the request returns to `received`. If either raises, call `left`.

        Returns:
            The request; None: call `check_out`, since the pool has a limit or publishes events.
        """
        if self._has_limits or self._publish:
            return None
        state, request = self.state, Request(self._runtime.waiter(), now)
        try:
            state.enqueue(request, now)
            if state.effects:
                self._perform()
        except BaseException:
            self._leave(request)
            raise
        return request

    def received(self, answer: Any) -> Connection:
        """Return the connection that a caller waited for, or raise the error that it got instead.

        Keep no reference to `answer`: the error's traceback would lead back to the variable.
        """
        if isinstance(answer, Connection):
            return answer
        answer.address = self.address
        try:
            raise answer
        finally:
            del answer  # its traceback references this frame

    def left(self, request: Request) -> None:
        """Withdraw a request of `ask` whose caller stopped waiting. Nothing is left of one that got an error."""
        if not isinstance(request.waiter.take_back(), PyMongoError):
            self._leave(request)

    async def check_out(
        self, deadline: Deadline, until: float, started: float, ticket: Ticket | None = None
    ) -> Connection:
        """Wait for this caller's turn and check out a connection. `ticket` is for a configured wait queue.

        `started` is the loop time now, and `until` the one at which server selection and check-out together must be
        done (server selection specification). `until` and the deadline bound the whole wait. waitQueueTimeoutMS bounds
        it only until a connection is being established for the caller.

        Raises:
            WaitQueueTimeoutError: no connection in time.
            AdmissionError: the configured wait queue did not let the caller wait.
            PoolClearedError: the server failed in the meantime.
            PoolClosedError: the pool was closed.
            PyMongoError: establishing the caller's connection failed with this error.
        """
        if self._publish:
            self._publish(events.ConnectionCheckOutStartedEvent(self.address))
        waiter = self._runtime.waiter()
        if deadline is NO_DEADLINE:
            request = Request(waiter, started)
            # timeoutMS overrides waitQueueTimeoutMS ("Validation and Overrides"), unless it sets no limit, as in
            # PyMongo.
            limit = self._options.wait_queue_timeout
        else:
            operation_until = deadline.expires_at if deadline.is_set else None
            request = Request(waiter, started, deadline.earliest(), operation_until)
            until = min(until, deadline.expires_at)
            limit = self._options.wait_queue_timeout if deadline.expires_at == inf else None
        if ticket is not None:
            request.is_gated = ticket.is_gated
        state = self.state
        if state.bounded is not None:
            state.bounded.fill_in(request, ticket or Ticket(started), until)
        try:
            state.enqueue(request, started)
            if state.effects:
                self._perform()
            leaves_at = request.leaves_at if limit is None else min(request.leaves_at, started + limit)
            # All in this coroutine, since thousands of callers may wait, and each coroutine takes a quarter of a
            # kilobyte.
            answer: Any
            try:
                answer = await waiter.wait(leaves_at if leaves_at < until else until)
            except WaitTimeout:
                if leaves_at >= until or not (request.establishment or request.has_passed):
                    raise
                # It has passed the queue: its own connection is being opened, or was opened at this very moment.
                request.waiter = waiter = self._runtime.waiter()
                state.stay(request, self._runtime.now())
                self._perform()
                answer = await waiter.wait(until)
        except WaitTimeout:
            raise self._timed_out(request, started) from None
        except BaseException as error:
            self._leave(request)
            self._failed_check_out(error, started)
            raise
        if request.is_gated:
            answer = self._recheck(request, answer)
        if isinstance(answer, Connection):
            if self._publish:
                duration = self._runtime.now() - started
                self._publish(events.ConnectionCheckedOutEvent(self.address, answer.id, duration))
            return answer
        self._failed_check_out(answer, started)
        try:
            return self.received(answer)
        finally:
            del answer, request, waiter  # they reference the error, whose traceback references this frame

    def _leave(self, request: Request) -> None:
        """Withdraw the request of a cancelled caller without losing a connection it received in the meantime."""
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

    def _refuse_gated(self, retry_after: float) -> int:
        number = self.state.refuse_gated(retry_after, self._runtime.now())
        self._perform()
        return number

    def _recheck(self, request: Request, answer: Any) -> Any:
        """Return `answer`, or an error instead of a connection that was handed over just before the breaker opened."""
        now = self._runtime.now()
        retry_after = self.gate.refuse_now(now) if self.gate is not None and isinstance(answer, Connection) else None
        if retry_after is None:
            return answer
        self.state.put_back(answer, now)
        self._perform()
        return breaker_opened(self.address, now - request.since, retry_after)

    def _timed_out(self, request: Request, started: float) -> PyMongoError:
        error: PyMongoError
        if request.refusal is not None:  # refused in time, and not woken yet
            # Reset, because it may hold the error, whose traceback holds the request.
            error, request.refusal = request.refusal(), None
            error.address = self.address
        else:
            now = self._runtime.now()
            error = self.state.expire(request, now)
            self.state.serve(now)
            self._perform()
        self._failed_check_out(error, started)
        return error

    def _failed_check_out(self, error: BaseException, started: float) -> None:
        if not self._publish:
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
        """Return a connection to the pool; a broken or stale one is closed."""
        state = self.state
        state.put(connection, self._runtime.now())
        if self._publish:
            self._publish(events.ConnectionCheckedInEvent(self.address, connection.id))
        if state.effects:
            self._perform()

    @property
    def is_bounded(self) -> bool:
        """Whether the application configured the wait queue."""
        return self.state.bounded is not None

    def retry_after(self) -> float:
        """Return after how many seconds an operation may be tried again, as far as the pool knows."""
        return self.state.retry_after(self._runtime.now())

    def learn(self, error: PyMongoError) -> None:
        """Learn from an error of the server for how long it wants to be left alone."""
        if self.state.bounded is not None:
            hint = server_base_backoff(error)
            if hint is not None:
                self.state.bounded.hinted(hint, self._runtime.now())

    def caller_left(self, connection: Connection) -> None:
        """Record that a caller whose limit the driver cannot see cancelled the operation on `connection`."""
        self.state.caller_left(connection, self._runtime.now())

    # --- for the topology ---

    @property
    def generation(self) -> int:
        """The generation of new connections."""
        return self.state.generation

    def is_stale(self, generation: int, service_id: ObjectId | None = None) -> bool:
        """Whether the pool (or this service behind a load balancer) was cleared since `generation`."""
        return generation != self.state.generation_for(service_id)

    def ready(self) -> None:
        """Allow connections: a check has shown that the server is usable."""
        if not self.state.ready():
            return
        if self._publish:
            self._publish(events.PoolReadyEvent(self.address))
        if self._maintenance is not None:
            # The first time, the maintenance task populates the pool itself.
            self.state.populate()
            self._perform()
        elif self._options.min_size or self._options.max_idle_time is not None:
            self._maintenance = self._host.spawn(
                self._maintain, name=f"pool maintenance {format_address(self.address)}"
            )

    def clear(
        self,
        because: BaseException | None,
        *,
        interrupt_in_use: bool = False,
        service_id: ObjectId | None = None,
    ) -> None:
        """Make all connections stale after a server failure and pause until `ready`.

        With `service_id`, only make the connections to that failed service behind a load balancer stale.
        """
        if service_id is None:
            must_publish = self.state.clear(because, interrupt_in_use=interrupt_in_use)
        else:
            must_publish = self.state.clear_service(service_id)
        if must_publish and self._publish:
            self._publish(events.PoolClearedEvent(self.address, service_id, interrupt_in_use))
        self._perform()

    def close(self, *, is_server_gone: bool = False) -> None:
        """Close the pool; connections in use are closed when they are checked in.

        `is_server_gone`: the server left the deployment, so waiting operations may try another one.
        """
        if not self.state.close(is_server_gone=is_server_gone):
            return
        for connection in self.state.in_use:
            if connection.purpose is not Purpose.OTHER:
                # It may never be checked in: the application may have forgotten its cursor or session.
                connection.close()
        if self._maintenance is not None:
            self._maintenance.cancel()
        self._perform()
        if is_server_gone:
            for forget in self._on_gone:
                forget()
        if self._publish:
            self._publish(events.PoolClosedEvent(self.address))

    @property
    def expects_cursors(self) -> bool:
        """Whether a reply that the pool waits for may open a cursor."""
        return any(connection.owes_cursor for connection in self.state.pending)

    def refuse_waiting(self) -> None:
        """Fail all operations that wait for a connection, because the client is being closed."""
        self.state.refuse_waiting()
        self._perform()

    def close_now(self) -> None:
        """Close every socket, even those in use, because the client or its event loop ends now."""
        in_use = list(self.state.in_use)
        self.close()
        for connection in in_use:
            # The server may have executed the operation, so this is not an InvalidOperation.
            connection.interrupt(AutoReconnect("the client was closed while the operation was in flight"))

    # --- effects ---

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
                self.late_replies.start(effect)
            elif isinstance(effect, Refuse):
                self._waking.wake(effect.requests, Request.deliver)
            else:
                where = format_address(self.address)
                message = f"Connection to {where} interrupted due to server monitor timeout"
                effect.connection.interrupt(PoolClearedError(message))

    def _close_connection(self, connection: Connection, reason: str) -> None:
        connection.close()
        self.late_replies.give_up(connection)
        self._publish_closed(connection.id, reason)

    # --- connections that are being established ---

    def _start_establishing(self, establishment: Establishment) -> None:
        establishment.started_at = self._runtime.now()
        # It begins later. Before the event, since a listener may end the program: closing finds every establishment.
        self._establishing[establishment] = self._host.spawn(
            self._establish, establishment, name=f"connecting {format_address(self.address)}"
        )
        if self._publish:
            self._publish(events.ConnectionCreatedEvent(self.address, establishment.connection_id))

    def _abandon(self, establishment: Establishment, reason: str) -> None:
        task = self._establishing.pop(establishment, None)
        if task is not None:  # an interrupt (Ctrl-C) may have come before it was spawned
            task.cancel()
        # The task may end without ever having started, so the event is published here.
        self._publish_closed(establishment.connection_id, reason)

    async def _establish(self, establishment: Establishment) -> None:
        started = self._runtime.now()
        connect_timeout = self._options.connect_timeout
        until = started + connect_timeout if connect_timeout else inf
        # No local variable keeps the request: it gets the error, whose frames lead back to this one since Python 3.12.
        operation_until = None if establishment.request is None else establishment.request.operation_until
        try:
            connection = await self._establisher.open(
                self.address,
                establishment.connection_id,
                establishment.generation,
                until,
                authenticate=True,
                operation_until=operation_until,
                # CSOT, "Background Connection Pooling". Not for hello: the specification's "command-execution" suite
                # expects connections whose hello takes longer than timeoutMS.
                each=self._options.command_timeout if establishment.request is None else inf,
                join=self.state.services.join,
                on_step=establishment.reach,
            )
        except EstablishmentError as failure:
            self._not_established(establishment, failure.error, failure)
        except Exception as error:
            # A bug, possibly in code of the application. A waiting operation gets an error that wraps this one.
            level = logging.ERROR if establishment.request is None else logging.DEBUG
            _logger.log(level, "a connection to %s could not be made", format_address(self.address), exc_info=True)
            wrapped = PoolClearedError(f"a connection could not be made: {error!r}")
            wrapped.__cause__ = error.with_traceback(None)
            self._not_established(establishment, wrapped, None)
        except BaseException as error:
            # The client ends. The waiting operation must not wait forever.
            self._not_established(
                establishment, PoolClearedError(f"connecting was abandoned: {type(error).__name__}"), None
            )
            raise
        else:
            self._is_established(establishment, connection, started)

    def _is_established(self, establishment: Establishment, connection: Connection, started: float) -> None:
        if self._establishing.pop(establishment, None) is None:
            connection.close()  # abandoned at the moment it completed
            return
        now = self._runtime.now()
        self.state.pace.connected(now - started, now)
        if self._publish:
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
        self._publish_closed(establishment.connection_id, events.ConnectionClosedReason.ERROR, error)
        self.state.serve(self._runtime.now())
        self._perform()

    def _publish_closed(self, connection_id: int, reason: str, error: PyMongoError | None = None) -> None:
        if self._publish:
            self._publish(events.ConnectionClosedEvent(self.address, connection_id, reason, error))

    async def _maintain(self) -> None:
        """Enforce minPoolSize and maxIdleTimeMS until the pool is closed."""
        while True:
            try:
                self.state.prune(self._runtime.now())
                self.state.populate()
                self._perform()
            except Exception:  # a bug: the next round may succeed
                _logger.exception("maintenance of the pool of %s failed; it continues", format_address(self.address))
            await self._runtime.sleep(self._options.maintenance_interval)
