"""Shell: the one path of every command, and the one retry loop.

Select a server, check a connection out, build and decorate the command for it, send it, learn from the outcome, and
ask `retry` what follows. The first attempt that succeeds makes no retry state at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from motorlite._execution import classify
from motorlite._execution.building import CommandBuilder
from motorlite._execution.command_events import CommandEvents
from motorlite._execution.late_reply import worth_waiting_until
from motorlite._execution.operation import Kind
from motorlite._execution.pinning import PinnedConnection, opens_cursor
from motorlite._execution.retry import Again, Retry
from motorlite._execution.run import Run, new_operation_id
from motorlite._execution.selecting import select, select_and_tell
from motorlite._execution.session import Session
from motorlite._pool.compressed_stream import LARGE
from motorlite._pool.messages import next_request_id
from motorlite._topology.topology_type import TopologyType
from motorlite.errors import (
    REAUTHENTICATION_REQUIRED,
    InvalidOperation,
    OperationFailure,
    ProtocolError,
    PyMongoError,
    error_from_reply,
    write_concern_error,
)
from motorlite.monitoring import RetryEvent
from motorlite.retry import RetryRefusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite._execution.operation import Command, Operation, Pin
    from motorlite._execution.retry import Raise, RetrySettings
    from motorlite._execution.session import ServerSession, SessionPool
    from motorlite._pool.connection import Connection, Renew
    from motorlite._topology.server import Server
    from motorlite._topology.topology import Topology
    from motorlite.deadline import Deadline
    from motorlite.values import Address, Document


class Executor:
    """Executes the operations of one client."""

    def __init__(
        self,
        topology: Topology,
        sessions: SessionPool,
        settings: RetrySettings,
        *,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        server_selection_timeout: float,
        socket_timeout: float | None,
        api_declaration: Mapping[str, Any] | None,
        publish_command: Callable[[Any], None] | None,
        publish_retry: Callable[[RetryEvent], None] | None,
        publish_selection: Callable[[Any], None] | None,
        on_lost_cursor: Callable[[Address, Mapping[str, Any]], None],
    ) -> None:
        self._topology = topology
        self._sessions = sessions
        self._builder = CommandBuilder(sessions, retry_writes=settings.retry_writes, api_declaration=api_declaration)
        self._settings = settings
        self.bucket = settings.bucket
        self._now = now
        self._sleep = sleep
        self._server_selection_timeout = server_selection_timeout
        self._socket_timeout = inf if socket_timeout is None else socket_timeout
        # None: there is no listener and nothing is logged.
        self._publish_command = publish_command
        self._publish_retry = publish_retry
        self._publish_selection = publish_selection
        # Called with every reply that has opened a cursor, and its server, where the caller does not get the cursor.
        self._on_lost_cursor = on_lost_cursor
        # The client is being closed.
        self._is_stopped = False
        # Retries by reason and refusals by reason, for the client's statistics.
        self.retries: dict[str, int] = {}
        self.refusals: dict[str, int] = {}

    def stop(self) -> None:
        """The client is being closed: end all waiting, make no more retries; operations in flight go on."""
        self._is_stopped = True
        self._topology.stop()

    def use(self, topology: Topology) -> None:
        """Execute on `topology` from now on; operations that wait for a server get it from there."""
        self._topology = topology

    async def execute(
        self, operation: Operation, session: Session | None, deadline: Deadline, operation_id: int | None = None
    ) -> Any:
        """Execute `operation`, with as many retries as its kind, the labels, the budget and the deadline allow.

        Returns:
            What the operation's `parse` makes of the reply; None for an unacknowledged write.

        Raises:
            PyMongoError: the error that `classify.to_raise` picks of those that the attempts met.
        """
        run = Run(operation, session, deadline, new_operation_id() if operation_id is None else operation_id)
        retry: Retry | None = None
        decision: Again | Raise | None
        if deadline.scope_expires_at == -inf:  # cancelled already: let it happen before a connection is spent
            await self._sleep(0)
        try:
            while True:
                try:
                    reply = await self._attempt(run)
                except PyMongoError as error:
                    if self._now() >= deadline.scope_expires_at:
                        # The caller's scope ends now: the caller must see that, not what the server made of it.
                        await self._sleep(0.001)
                    if retry is None:
                        retry = Retry(self._settings, operation)
                    decision = self._decide(run, retry, error)
                    if not isinstance(decision, Again):
                        if decision.error is not run.concern_error or run.reply is None:
                            if decision.error is error:
                                raise
                            raise decision.error from error
                        # The write was applied and the operation knows how to tell of the write concern.
                        reply, run.server = run.reply, run.replied
                        break
                    if decision.delay:
                        await self._back_off(run, retry, decision.delay, error)
                    run.begin_retry()
                    continue
                if retry is not None:
                    retry.succeeded()
                elif self.bucket is not None:
                    self.bucket.first_attempt_succeeded()
                break
            if reply is None:
                return None
            try:
                value = operation.parse(reply)
                if operation.creates_cursor:
                    self._attach(run, value)
            except PyMongoError as error:
                self._complete(run, retry, reply, error)
                raise
            except Exception as error:  # of a shape that no reader expects
                raise self._complete(run, retry, reply, _unusable(operation, error)) from error
            return value
        finally:
            if retry is not None:
                # This frame must not lead back to an error that came through it: only the collector frees such a pair.
                retry = decision = run.concern_error = None
            if session is None and run.server_session is not None:
                self._release(run.server_session)
            if run.pin is not None:
                run.pin.release()

    async def _attempt(self, run: Run) -> Document | None:
        """Send the operation once. None: no reply was asked for."""
        operation, deadline = run.operation, run.deadline
        if operation.pin is not None:
            return await self._attempt_pinned(run, operation.pin)
        if self._publish_selection is None:
            server = self._topology.select_now(operation.selector, run.deprioritized)
            if server is None:
                server = await select(self._topology, run, self._now() + self._server_selection_timeout)
        else:
            until = self._now() + self._server_selection_timeout
            server = await select_and_tell(lambda: self._topology, run, until, self._publish_selection)
        run.server = server
        run.description = server.description
        server.operation_count += 1
        try:
            connection = server.pool.check_out_now()
            if connection is None:
                connection = await server.pool.check_out(deadline, self._check_out_limit(run))
            try:
                try:
                    reply = await self._send(run, server, connection)
                except OperationFailure as error:
                    if error.code != REAUTHENTICATION_REQUIRED or connection.renew is None:
                        raise
                    reply = await self._reauthenticate(run, server, connection, connection.renew)
                if operation.creates_cursor and connection.facts.is_load_balanced and opens_cursor(reply):
                    run.pin = PinnedConnection(server, connection)
                return reply
            finally:
                if run.pin is None:
                    server.pool.check_in(connection)
        finally:
            server.operation_count -= 1

    async def _attempt_pinned(self, run: Run, pin: Pin) -> Document | None:
        assert isinstance(pin, PinnedConnection)
        run.server, run.description = pin.server, pin.server.description
        if not pin.is_usable:
            raise pin.lost()
        connection = pin.connection
        pin.server.operation_count += 1
        try:
            return await self._send(run, pin.server, connection)
        except OperationFailure as error:
            if error.code != REAUTHENTICATION_REQUIRED or connection.renew is None:
                raise
            return await self._reauthenticate(run, pin.server, connection, connection.renew)
        finally:
            pin.server.operation_count -= 1

    def _check_out_limit(self, run: Run) -> float:
        """With timeoutMS, selecting and checking out share serverSelectionTimeoutMS (CSOT, "Server Selection")."""
        if not run.deadline.is_set:
            return inf
        if run.selection_until != inf:
            return run.selection_until
        return self._now() + self._server_selection_timeout

    async def _reauthenticate(self, run: Run, server: Server, connection: Connection, renew: Renew) -> Document | None:
        """The server executed nothing and wants the connection authenticated anew (authentication specification).

        The command is then sent once more, whether it may be retried or not, and no retry is counted.
        """
        deadline = run.deadline
        until, operation_until = self._now() + self._socket_timeout, None
        if deadline.is_set:
            until = operation_until = deadline.expires_at
        try:
            await renew(connection, until, operation_until)
        except BaseException as failure:
            self._failed(run, server, connection, failure)
            raise
        return await self._send(run, server, connection)

    async def _send(self, run: Run, server: Server, connection: Connection) -> Document | None:
        operation, deadline = run.operation, run.deadline
        facts = connection.facts
        run.wire_version = facts.max_wire_version
        now = self._now()
        request_id = next_request_id()
        command, message = self._builder.build(run, facts, request_id, now, self._topology.description)
        if len(message) >= LARGE:
            # The socket's limit, and the command's events, begin when it is sent.
            message, now = await connection.prepare(message, deadline.expires_at), self._now()
        until = now + self._socket_timeout if not deadline.is_set else deadline.expires_at
        events = None
        if self._publish_command is not None:
            events = self._events(run, command, connection, request_id)
            self._publish_command(events.started(command.document, command.sequences))
        try:
            if not operation.is_acknowledged:
                await connection.send_only(message, until)
                if events is not None and self._publish_command is not None:
                    self._publish_command(events.succeeded(self._now() - now, {"ok": 1}))
                return None
            reply = await connection.round_trip(
                message, request_id, until, operation.codec_options, operation.document_fields
            )
            if reply.get("ok") != 1:
                raise self._server_error(reply, run, connection)
        except BaseException as error:
            if connection.owed is not None:
                self._abandon(operation, connection, command.document, now)
                if not isinstance(error, Exception) and deadline.earliest() == inf:
                    server.pool.caller_left(connection)
            self._failed(run, server, connection, error)
            if connection.refused is not None:
                self._end_refused(connection, connection.refused)
            if events is not None and self._publish_command is not None:
                self._publish_command(events.failed(self._now() - now, error))
            raise
        if events is not None and self._publish_command is not None:
            self._publish_command(events.succeeded(self._now() - now, reply))
        if "$clusterTime" in reply:
            self._builder.gossip(reply)
        if run.session is not None:
            run.session.advance(reply)
        if operation.kind is not Kind.READ and "writeConcernError" in reply:
            self._look_at_concern_error(run, server, connection, reply)
        return reply

    # --- outcomes ---

    def _server_error(self, reply: Document, run: Run, connection: Connection) -> PyMongoError:
        """The error of a reply with ``ok: 0``; gossip comes with it as with any other reply."""
        self._builder.gossip(reply)
        if run.session is not None:
            run.session.advance(reply)
        error = error_from_reply(reply, connection.facts.max_wire_version)
        error.address = connection.address
        return error

    def _abandon(self, operation: Operation, connection: Connection, sent: Document, sent_at: float) -> None:
        """The caller waits no longer; the pool may wait for the reply in its stead."""
        if operation.is_await_data or (
            connection.facts.is_load_balanced and (operation.creates_cursor or operation.pin is not None)
        ):
            # Behind a load balancer, closing also ends a cursor that no other connection can reach.
            connection.close()
        else:
            connection.owed_until = worth_waiting_until(sent, sent_at, self._now())

    def _end_refused(self, connection: Connection, reply: Document) -> None:
        """The caller gets an error in place of this reply: a cursor that it has opened is lost."""
        connection.refused = None
        if not opens_cursor(reply) or "nextBatch" in reply["cursor"]:
            return  # the cursor of a getMore is known already
        if connection.facts.is_load_balanced:
            connection.close()
        else:
            self._on_lost_cursor(connection.address, reply)

    def gossip(self, reply: Mapping[str, Any]) -> None:
        """Learn the cluster time from a reply that came late."""
        self._builder.gossip(reply)

    def _failed(self, run: Run, server: Server, connection: Connection, error: BaseException) -> None:
        """Let session and topology learn from a failed attempt; `error` may be a cancellation."""
        if run.server_session is not None and (connection.stream.is_closed or connection.owed is not None):
            # The server may still be busy with the session's command (driver sessions: "dirty").
            run.server_session.is_dirty = True
        if not isinstance(error, PyMongoError):
            return
        if error.timeout and run.deadline.is_set:
            # The socket's limit was the deadline, the server's was the maxTimeMS made of it.
            error.phase = "reply"
        self._topology.on_operation_error(server, error, connection.generation, service_id=connection.service_id)

    def _look_at_concern_error(self, run: Run, server: Server, connection: Connection, reply: Document) -> None:
        """A write's concern failed, whether it was applied or not: the server may have stepped down, a retry may help.

        Raises:
            WriteConcernError: a retry may help; should there be none, the reply stands.
        """
        facts, concern, labels = connection.facts, reply["writeConcernError"], reply.get("errorLabels") or []
        if not isinstance(concern, Mapping) or not isinstance(labels, list):
            return  # `parse` will tell
        error = write_concern_error(concern, labels)
        error.address = connection.address
        version = reply.get("topologyVersion")
        self._topology.on_operation_error(
            server, error, connection.generation, topology_version=version, service_id=connection.service_id
        )
        is_retryable = classify.is_retryable_concern_error(reply, facts.max_wire_version, is_mongos=facts.is_mongos)
        # Write errors beside it do not matter: a primary that steps down between two documents, or before a single one,
        # answers with both, and what was written is not written again.
        if is_retryable:
            run.concern_error = error
            run.reply, run.replied = reply, server
            try:
                raise error
            finally:
                del error

    # --- retries ---

    def _decide(self, run: Run, retry: Retry, error: PyMongoError) -> Again | Raise:
        operation, server, settings = run.operation, run.server, self._settings
        if error.address is None and server is not None:
            error.address = server.address
        ordinary = operation.is_retryable and operation.is_acknowledged
        if ordinary and operation.kind is Kind.WRITE:
            if run.wire_version:
                ordinary = run.transaction_number is not None
            else:
                # Not even a connection: what monitoring knew of the server decides.
                ordinary = server is not None and (
                    run.transaction_number is not None
                    or (run.description is not None and run.description.retryable_writes_supported)
                )
            if ordinary and settings.retry_writes:
                classify.label_write_error(error, run.wire_version)
        if not run.wire_version:
            # A server may have answered, or hung up on, the handshake or authentication; the operation was not sent.
            error.reached_server = False
        is_sharded = self._topology.description.topology_type is TopologyType.Sharded
        decision = retry.after(
            error,
            run.deadline,
            self._now(),
            ordinary=ordinary,
            is_sharded=is_sharded,
            is_closing=self._is_stopped,
        )
        if isinstance(decision, Again):
            self.retries[decision.reason] = self.retries.get(decision.reason, 0) + 1
            if decision.deprioritize and server is not None and server.address not in run.deprioritized:
                run.deprioritized = (*run.deprioritized, server.address)
        elif decision.refusal is not None:
            self.refusals[decision.refusal] = self.refusals.get(decision.refusal, 0) + 1
        else:
            return decision  # nothing was refused: no rule is about this error, or the client is being closed
        if self._publish_retry is not None:
            self._publish_retry(self._retry_event(run, retry, error, decision))
        return decision

    async def _back_off(self, run: Run, retry: Retry, delay: float, error: PyMongoError) -> None:
        until = self._now() + delay
        try:
            if run.wire_version or run.server is None:
                await self._topology.pause(until)
            else:
                # Not even a connection. Should the server be dead, not overloaded, its successor need not wait.
                await self._topology.back_off(run.operation.selector, run.server.address, until)
        except BaseException:
            retry.gave_up()
            raise
        if self._is_stopped:
            retry.gave_up(RetryRefusal.CLOSED)
            message = "the client was closed while the operation waited for its next attempt"
            raise retry.describe(InvalidOperation(message)) from error

    def _retry_event(self, run: Run, retry: Retry, error: PyMongoError, decision: Again | Raise) -> RetryEvent:
        permitted = isinstance(decision, Again)
        return RetryEvent(
            run.operation.name,
            run.operation_id,
            permitted=permitted,
            reason=str(decision.reason),
            refusal=None if decision.refusal is None else str(decision.refusal),
            delay=decision.delay,
            attempt=retry.retries if permitted else retry.retries + 1,
            tokens=self.bucket.tokens if self.bucket is not None else inf,
            address=run.server.address if run.server is not None else None,
            error=error,
            deprioritized=decision.deprioritize,
        )

    def _complete(self, run: Run, retry: Retry | None, reply: Document, error: PyMongoError) -> PyMongoError:
        """`error`, which is in a successful reply, with what the loop's own errors have; ends the reply's cursor."""
        assert run.server is not None
        error.reached_server = True
        if run.pin is not None:
            run.pin.connection.close()
        elif run.operation.creates_cursor:
            self._on_lost_cursor(run.server.address, reply)
        error.address = run.server.address
        if reply is run.reply and run.concern_error is not None:
            error.address, error.phase = run.concern_error.address, run.concern_error.phase
        if retry is None:
            error.attempts = 1
        else:
            retry.describe(error)
        return error

    # --- sessions and cursors ---

    def _attach(self, run: Run, value: Any) -> None:
        """A cursor goes on where it was opened, with the session that it was opened with."""
        assert run.server is not None
        value.address = run.server.address
        value.pin, run.pin = run.pin, None
        if run.session is None and value.cursor_id and run.server_session is not None:
            session = Session(is_implicit=True)
            session.server_session = run.server_session
            value.session = session
            run.server_session = None

    def release(self, session: Session) -> None:
        """Give the server session of an implicit session, or of one that was ended, back to the pool."""
        server_session, session.server_session = session.server_session, None
        if server_session is not None:
            self._release(server_session)

    def _release(self, server_session: ServerSession) -> None:
        minutes = self._topology.description.logical_session_timeout_minutes
        self._sessions.release(server_session, self._now(), minutes)

    def _events(self, run: Run, command: Command, connection: Connection, request_id: int) -> CommandEvents:
        handshake = connection.handshake
        return CommandEvents(
            command.name,
            command.document,
            request_id,
            run.operation_id,
            connection.address,
            handshake.server_connection_id,
            connection.id,
            handshake.service_id,
        )


def _unusable(operation: Operation, error: Exception) -> ProtocolError:
    return ProtocolError(f"the reply to {operation.name} cannot be used: {error!r}")
