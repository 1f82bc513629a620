"""Shell: the one path of every command, and the one retry loop.

Select a server, check a connection out, build and decorate the command for it, send it, learn from the outcome, and
ask `retry` what follows. The first attempt that succeeds makes no retry state at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any

from motorlite._execution import classify, decorate
from motorlite._execution.command_events import CommandEvents
from motorlite._execution.late_reply import worth_waiting_until
from motorlite._execution.operation import Kind
from motorlite._execution.retry import Again, Retry
from motorlite._execution.session import Session, newest_cluster_time
from motorlite._pool.connection import encode_command, next_request_id
from motorlite._topology.selection import describe_selector
from motorlite._topology.topology_type import TopologyType
from motorlite.deadline import NO_DEADLINE
from motorlite.errors import (
    ConfigurationError,
    InvalidOperation,
    ProtocolError,
    PyMongoError,
    error_from_reply,
    write_concern_error,
)
from motorlite.monitoring import (
    RetryEvent,
    ServerSelectionFailedEvent,
    ServerSelectionStartedEvent,
    ServerSelectionSucceededEvent,
    ServerSelectionWaitingEvent,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite._execution.operation import Command, Operation
    from motorlite._execution.retry import Raise, RetrySettings
    from motorlite._execution.session import ServerSession, SessionPool
    from motorlite._pool.connection import Connection
    from motorlite._topology.server import Server
    from motorlite._topology.server_description import ServerDescription
    from motorlite._topology.topology import Topology
    from motorlite.deadline import Deadline
    from motorlite.values import Address, Document

_operation_ids = count(1)


def new_operation_id() -> int:
    """An id that the command events of all attempts and batches of one operation share."""
    return next(_operation_ids)


class _Run:
    """One operation on its way: what its attempts share."""

    __slots__ = (
        "concern_error",
        "deadline",
        "deprioritized",
        "description",
        "is_retry",
        "operation",
        "operation_id",
        "reply",
        "selection_until",
        "server",
        "server_session",
        "session",
        "transaction_number",
        "wire_version",
    )

    def __init__(self, operation: Operation, session: Session | None, deadline: Deadline, operation_id: int) -> None:
        self.operation = operation
        # The caller's session; None: an implicit one is taken at the first attempt.
        self.session = session
        self.deadline = deadline
        self.operation_id = operation_id
        # Taken once and kept for retries, as the transaction number is.
        self.server_session: ServerSession | None = None
        self.transaction_number: int | None = None
        # Servers that the next attempt avoids.
        self.deprioritized: tuple[Address, ...] = ()
        self.is_retry = False
        # Of the current attempt: the server, what was known of it when it was selected (the description may be reset
        # while the operation waits for a connection), and its wire version (0: not reached).
        self.server: Server | None = None
        self.description: ServerDescription | None = None
        self.wire_version = 0
        # The newest write concern error that may be retried, and the reply with ok: 1 that it is in.
        self.concern_error: PyMongoError | None = None
        self.reply: Document | None = None
        # Loop time at which selecting and checking out must be done; set when either has to wait.
        self.selection_until = inf

    def begin_retry(self) -> None:
        """Forget what was of the last attempt alone."""
        self.is_retry = True
        self.server = None
        self.wire_version = 0
        self.selection_until = inf


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
        server_selection_timeout: float = 30.0,
        socket_timeout: float | None = None,
        api_declaration: Mapping[str, Any] | None = None,
        publish_command: Callable[[Any], None] | None = None,
        publish_retry: Callable[[RetryEvent], None] | None = None,
        publish_selection: Callable[[Any], None] | None = None,
    ) -> None:
        self._topology = topology
        self._sessions = sessions
        self._settings = settings
        self.bucket = settings.bucket
        self._now = now
        self._sleep = sleep
        self._server_selection_timeout = server_selection_timeout
        self._socket_timeout = inf if socket_timeout is None else socket_timeout
        # apiVersion and its companions, or None.
        self._api_declaration = api_declaration
        # None: nobody listens and nothing is logged.
        self._publish_command = publish_command
        self._publish_retry = publish_retry
        self._publish_selection = publish_selection
        # The newest that any server told ("gossiping the cluster time").
        self.cluster_time: Mapping[str, Any] | None = None
        # Retries by reason and refusals by reason, for the client's statistics.
        self.retries: dict[str, int] = {}
        self.refusals: dict[str, int] = {}

    async def execute(
        self, operation: Operation, session: Session | None, deadline: Deadline, operation_id: int | None = None
    ) -> Any:
        """Execute `operation`, with as many retries as its kind, the labels, the budget and the deadline allow.

        Returns:
            What the operation's `parse` makes of the reply; None for an unacknowledged write.

        Raises:
            PyMongoError: the error that `classify.to_raise` picks of those that the attempts met.
        """
        run = _Run(operation, session, deadline, operation_id or next(_operation_ids))
        retry: Retry | None = None
        if deadline.scope_expires_at == -inf:
            # The caller's cancel scope has been cancelled already: be cancelled before a connection is spent on it.
            await self._sleep(0)
        try:
            while True:
                try:
                    reply = await self._attempt(run)
                except PyMongoError as error:
                    if self._now() >= deadline.scope_expires_at:
                        # The caller's scope ends now, which is to be told as that, not as what the server made of it.
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
                        reply = run.reply
                        break
                    if decision.delay:
                        await self._back_off(run, decision.delay)
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
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                strange = ProtocolError(f"the reply to {operation.name} cannot be used: {error!r}")
                self._complete(run, retry, reply, strange)
                raise strange from error
            return value
        finally:
            if session is None and run.server_session is not None:
                self._release(run.server_session)

    async def _attempt(self, run: _Run) -> Document | None:
        """Send the operation once. None: no reply was asked for."""
        operation, deadline = run.operation, run.deadline
        if self._publish_selection is None:
            server = self._topology.select_now(operation.selector, run.deprioritized)
            if server is None:
                server = await self._select(run, None)
        else:
            server = await self._select_and_tell(run, self._publish_selection)
        run.server = server
        run.description = server.description
        server.operation_count += 1
        try:
            connection = server.pool.check_out_now()
            if connection is None:
                connection = await server.pool.check_out(deadline, self._check_out_limit(run))
            try:
                return await self._send(run, server, connection)
            finally:
                server.pool.check_in(connection)
        finally:
            server.operation_count -= 1

    async def _select(self, run: _Run, on_wait: Callable[[float], None] | None) -> Server:
        until = run.selection_until = self._now() + self._server_selection_timeout
        selector = run.operation.selector
        return await self._topology.select(selector, run.deadline, run.deprioritized, until, on_wait)

    async def _select_and_tell(self, run: _Run, publish: Callable[[Any], None]) -> Server:
        """Server selection specification, "Logging"."""
        operation, topology = run.operation, self._topology

        wanted = describe_selector(operation.selector)

        def facts() -> tuple[str, int, str, Any]:
            return operation.name, run.operation_id, wanted, topology.description

        publish(ServerSelectionStartedEvent(*facts()))
        try:
            server = topology.select_now(operation.selector, run.deprioritized)
            if server is None:
                server = await self._select(run, lambda left: publish(ServerSelectionWaitingEvent(*facts(), left)))
        except BaseException as error:
            publish(ServerSelectionFailedEvent(*facts(), error))
            raise
        publish(ServerSelectionSucceededEvent(*facts(), server.address))
        return server

    def _check_out_limit(self, run: _Run) -> float:
        """With timeoutMS, selecting and checking out share serverSelectionTimeoutMS (CSOT, "Server Selection")."""
        if not run.deadline.is_set:
            return inf
        if run.selection_until != inf:
            return run.selection_until
        return self._now() + self._server_selection_timeout

    async def _send(self, run: _Run, server: Server, connection: Connection) -> Document | None:
        operation, deadline = run.operation, run.deadline
        facts = connection.facts
        run.wire_version = facts.max_wire_version
        now = self._now()
        request_id = next_request_id()
        command, message = self._build(run, connection, request_id, now)
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
            self._failed(run, server, connection, error)
            if events is not None and self._publish_command is not None:
                self._publish_command(events.failed(self._now() - now, error))
            raise
        if events is not None and self._publish_command is not None:
            self._publish_command(events.succeeded(self._now() - now, reply))
        if "$clusterTime" in reply:
            self.cluster_time = newest_cluster_time(self.cluster_time, reply["$clusterTime"])
        if run.session is not None:
            run.session.advance(reply)
        if operation.kind is not Kind.READ and "writeConcernError" in reply:
            self._look_at_concern_error(run, server, connection, reply)
        return reply

    def _build(self, run: _Run, connection: Connection, request_id: int, now: float) -> tuple[Command, bytes]:
        """The command for this server, and its message.

        Raises:
            CommandNotRebuilt: a retry cannot have an equivalent command here; the earlier error is then raised.
        """
        operation, facts = run.operation, connection.facts
        try:
            command = operation.command(facts)
            document = command.document
            if operation.supports_sessions:
                self._add_session(run, document, facts.session_timeout_minutes, connection, now)
            if operation.read_preference is not None:
                is_direct = self._topology.description.topology_type is TopologyType.Single
                decorate.add_read_preference(document, operation, facts, is_direct=is_direct)
            if run.deadline is not NO_DEADLINE and run.description is not None:
                round_trip_time = run.description.min_round_trip_time
                decorate.add_time_limit(document, operation, run.deadline, now, round_trip_time)
            if self._api_declaration is not None:
                decorate.add_api_version(document, self._api_declaration)
            document["$db"] = operation.database
            message = encode_command(
                document,
                operation.codec_options,
                command.sequences,
                request_id,
                facts,
                is_acknowledged=operation.is_acknowledged,
            )
        except Exception as error:
            if run.is_retry and not getattr(error, "timeout", False):
                raise CommandNotRebuilt(f"no equivalent command for this server: {error}") from error
            raise
        return command, message

    def _add_session(
        self, run: _Run, document: Document, timeout_minutes: int | None, connection: Connection, now: float
    ) -> None:
        operation, session, facts = run.operation, run.session, connection.facts
        if not facts.supports_sessions or not operation.is_acknowledged:
            # Unacknowledged writes never use an implicit session (driver sessions specification).
            if session is not None and not session.is_implicit:
                what = "unacknowledged writes" if facts.supports_sessions else "this server"
                raise ConfigurationError(f"sessions do not go with {what}")
            if run.transaction_number is not None:
                raise ConfigurationError("the server does not support sessions")
            return
        server_session = run.server_session
        if server_session is None:
            server_session = session.server_session if session is not None else None
            if server_session is None:
                server_session = self._sessions.acquire(now, timeout_minutes)
                if session is not None:
                    session.server_session = server_session
            run.server_session = server_session
            if (
                operation.kind is Kind.WRITE
                and operation.is_retryable
                and self._settings.retry_writes
                and facts.supports_retryable_writes
            ):
                server_session.transaction_number += 1
                run.transaction_number = server_session.transaction_number
        server_session.last_use = now
        if run.transaction_number is not None and not facts.supports_retryable_writes:
            raise ConfigurationError("the server does not support retryable writes")
        decorate.add_session(document, operation, server_session, session, run.transaction_number)
        cluster_time = self.cluster_time
        if session is not None:
            cluster_time = newest_cluster_time(cluster_time, session.cluster_time)
        if cluster_time is not None:
            document["$clusterTime"] = cluster_time

    # --- outcomes ---

    def _server_error(self, reply: Document, run: _Run, connection: Connection) -> PyMongoError:
        """The error of a reply with ``ok: 0``; gossip comes with it as with any other reply."""
        self.cluster_time = newest_cluster_time(self.cluster_time, reply.get("$clusterTime"))
        if run.session is not None:
            run.session.advance(reply)
        error = error_from_reply(reply, connection.facts.max_wire_version)
        error.address = connection.address
        return error

    def _abandon(self, operation: Operation, connection: Connection, sent: Document, sent_at: float) -> None:
        """The caller waits no longer; the pool may wait for the reply in its stead."""
        if operation.is_await_data:
            connection.close()
        else:
            connection.owed_until = worth_waiting_until(sent, sent_at, self._now())

    def gossip(self, reply: Mapping[str, Any]) -> None:
        """Learn the cluster time from a reply that came late."""
        self.cluster_time = newest_cluster_time(self.cluster_time, reply.get("$clusterTime"))

    def _failed(self, run: _Run, server: Server, connection: Connection, error: BaseException) -> None:
        """Let session and topology learn from a failed attempt; `error` may be a cancellation."""
        if run.server_session is not None and (connection.stream.is_closed or connection.owed is not None):
            # The server may still be busy with the session's command (driver sessions: "dirty").
            run.server_session.is_dirty = True
        if not isinstance(error, PyMongoError):
            return
        if error.timeout and run.deadline.is_set:
            # The socket's limit was the deadline, the server's was the maxTimeMS made of it.
            error.phase = "reply"
        self._topology.on_operation_error(server, error, connection.generation)

    def _look_at_concern_error(self, run: _Run, server: Server, connection: Connection, reply: Document) -> None:
        """A write's concern failed, whether it was applied or not: the server may have stepped down, a retry may help.

        Raises:
            WriteConcernError: a retry may help; should there be none, the reply stands.
        """
        facts, concern = connection.facts, reply["writeConcernError"]
        if not isinstance(concern, Mapping) or not isinstance(reply.get("errorLabels", []), list):
            return  # `parse` will tell
        error = write_concern_error(concern, reply.get("errorLabels", ()))
        error.address = connection.address
        version = reply.get("topologyVersion")
        self._topology.on_operation_error(server, error, connection.generation, topology_version=version)
        is_retryable = classify.is_retryable_concern_error(reply, facts.max_wire_version, is_mongos=facts.is_mongos)
        # Write errors beside it do not matter: a primary that steps down between two documents, or before a single one,
        # answers with both, and what was written is not written again.
        if is_retryable:
            run.concern_error = error
            run.reply = reply
            raise error

    # --- retries ---

    def _decide(self, run: _Run, retry: Retry, error: PyMongoError) -> Again | Raise:
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
        decision = retry.after(error, run.deadline, self._now(), ordinary=ordinary, is_sharded=is_sharded)
        if isinstance(decision, Again):
            self.retries[decision.reason] = self.retries.get(decision.reason, 0) + 1
            if decision.deprioritize and server is not None and server.address not in run.deprioritized:
                run.deprioritized = (*run.deprioritized, server.address)
        else:
            self.refusals[decision.refusal] = self.refusals.get(decision.refusal, 0) + 1
        if self._publish_retry is not None:
            self._publish_retry(self._retry_event(run, retry, error, decision))
        return decision

    async def _back_off(self, run: _Run, delay: float) -> None:
        if run.wire_version or run.server is None:
            await self._sleep(delay)
        else:
            # Not even a connection. Should the server have died rather than be overloaded, its successor need not wait.
            await self._topology.back_off(run.operation.selector, run.server.address, self._now() + delay)

    def _retry_event(self, run: _Run, retry: Retry, error: PyMongoError, decision: Again | Raise) -> RetryEvent:
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

    def _complete(self, run: _Run, retry: Retry | None, reply: Document, error: PyMongoError) -> None:
        """Tell an error that is in a successful reply what the loop's own errors are told."""
        assert run.server is not None
        error.address = run.server.address
        if reply is run.reply and run.concern_error is not None:
            error.address = run.concern_error.address
        if retry is None:
            error.attempts = 1
        else:
            retry.describe(error)

    # --- sessions and cursors ---

    def _attach(self, run: _Run, value: Any) -> None:
        """A cursor goes on where it was opened, with the session that it was opened with."""
        assert run.server is not None
        value.address = run.server.address
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

    def _events(self, run: _Run, command: Command, connection: Connection, request_id: int) -> CommandEvents:
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


class CommandNotRebuilt(InvalidOperation):
    """A retry was not sent, because the server that was selected for it cannot have an equivalent command."""
