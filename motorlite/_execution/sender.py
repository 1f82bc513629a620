"""Shell: sends one command over a checked-out connection: the only place that sends the commands of operations.

Whatever comes of it, the session, the server, the pool and the listeners learn it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from motorlite._base.values import Progress
from motorlite._connection.handshake import Purpose
from motorlite._connection.messages import LARGE, next_request_id
from motorlite._execution import building
from motorlite._execution.pins import opens_cursor
from motorlite._operations.contract import Kind
from motorlite._retry import classification
from motorlite._retry.failure import TimeLimits
from motorlite._wire.replies import error_from_reply, write_concern_error
from motorlite.errors import PyMongoError

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address, Document, ServerFacts
    from motorlite._connection.connection import Connection
    from motorlite._execution.building import CommandBuilder, CommandDefaults
    from motorlite._execution.reports import Reports
    from motorlite._execution.run import Attempt, Run
    from motorlite._operations.contract import Operation
    from motorlite._topology.topology import Server
    from motorlite._topology.topology_description import TopologyDescription

READ, NOT_SENT, ANSWERED = Kind.READ, Progress.NOT_SENT, Progress.ANSWERED


class Sender:
    """Sends the commands of one client."""

    def __init__(
        self,
        builder: CommandBuilder,
        limits: CommandDefaults,
        reports: Reports,
        *,
        now: Callable[[], float],
        socket_timeout: float | None,
        on_lost_cursor: Callable[[Address, Mapping[str, Any]], None],
        on_abandoned: Callable[[Address, str], None],
    ) -> None:
        self._builder = builder
        self._limits = limits
        self._reports = reports
        self._now = now
        self._socket_timeout = inf if socket_timeout is None else socket_timeout
        # Called with replies whose cursor the caller never receives, and the address of their server.
        self._on_lost_cursor = on_lost_cursor
        # Called with the server and the comment of an operation that its caller left and that may run for ever.
        self._on_abandoned = on_abandoned

    async def send(
        self, run: Run, attempt: Attempt, server: Server, connection: Connection, topology: TopologyDescription
    ) -> Document | None:
        """Send the command of an attempt. Return the reply, or None for unacknowledged writes.

        Raises:
            PyMongoError: The attempt failed.
        """
        operation, deadline, facts = run.operation, run.call.deadline, connection.facts
        now = attempt.sent_at
        assert now is not None
        request_id = next_request_id()
        # Decided here, since a level may change while a large message is compressed.
        is_shown = bool(self._reports.publish_command)
        command, message = self._builder.build(run, attempt, facts, request_id, now, topology, is_shown=is_shown)
        if len(message) >= LARGE:
            # The socket's limit and the command's events start when the message is sent.
            message, now = await connection.prepare(message, deadline), self._now()
        # timeoutMS=0 leaves socketTimeoutMS in force, as in PyMongo.
        until = now + self._socket_timeout if not deadline.is_set or deadline.expires_at == inf else deadline.expires_at
        if run.part is not None:
            attempt.is_pinned = run.part.begin(server, connection)
        events = self._reports.command(run, command, connection, request_id, now) if is_shown else None
        try:
            if not operation.is_acknowledged:
                await connection.send_only(message, until)
                if events is not None:
                    events.succeeded({"ok": 1}, self._now())
                return None
            codec_options, fields = operation.codec_options, operation.document_fields
            if operation.is_exhaust:
                reply = await connection.next_reply(message, request_id, until, codec_options, fields)
            else:
                reply = await connection.round_trip(message, request_id, until, codec_options, fields)
            if reply.get("ok") != 1.0:  # servers send a double
                attempt.progress = ANSWERED
                self._learn_times(run, reply)
                raise error_from_reply(reply, facts.max_wire_version, operation.prefers_concern_error)
        except BaseException as error:
            attempt.phase = "reply"
            self._learn_progress(run, attempt, connection, error)
            if isinstance(error, PyMongoError) and error.timeout:
                run.limits = self._time_limits(deadline, command.document, facts)
            if connection.owed is not None:
                self._abandon(operation, connection, command.document, now)
                if not isinstance(error, Exception) and deadline.earliest() == inf:
                    server.pool.caller_left(connection)
            self._learn(run, server, connection, error)
            refused = connection.take_refused()
            if refused is not None:
                self._end_refused(connection, refused)
            if events is not None:
                events.failed(error, self._now())
            raise
        if events is not None:
            events.succeeded(reply, self._now())
        if run.call.session is not None or "$clusterTime" in reply:
            self._learn_times(run, reply)
        if operation.kind is not READ and ("writeConcernError" in reply or "writeErrors" in reply):
            run.limits = self._time_limits(deadline, command.document, facts)
            if "writeConcernError" in reply:
                self._look_at_concern_error(attempt, server, connection, reply)
        return reply

    async def reauthenticate(self, run: Run, attempt: Attempt, server: Server, connection: Connection) -> None:
        """Authenticate the connection again, so that the command can be sent once more.

        Raises:
            PyMongoError: The server did not authenticate it.
        """
        attempt.progress, attempt.phase = NOT_SENT, None
        deadline = run.call.deadline
        until = self._now() + self._socket_timeout if deadline.expires_at == inf else deadline.expires_at
        operation_until = deadline.expires_at if deadline.is_set else None
        assert connection.renew is not None
        try:
            await connection.renew(connection, until, operation_until)
            attempt.progress, attempt.is_reauthenticated = ANSWERED, True
        except BaseException as error:
            attempt.phase = "reply"
            self._learn(run, server, connection, error)
            raise

    def _time_limits(self, deadline: Deadline, sent: Document, facts: ServerFacts) -> TimeLimits:
        """Return what client and server give the command as sent."""
        client = self._socket_timeout if deadline.expires_at == inf else deadline.timeout
        server = building.server_limit(sent, facts)
        return TimeLimits(None if client == inf else client, None if server is None else server / 1000)

    def _abandon(self, operation: Operation[Any], connection: Connection, sent: Document, sent_at: float) -> None:
        """Release the caller from waiting. The pool may wait for the pending reply instead."""
        if operation.is_await_data or (
            connection.facts.is_load_balanced and (operation.creates_cursor or connection.purpose is not Purpose.OTHER)
        ):
            # Behind a load balancer, this also ends a cursor or a transaction that no other connection reaches.
            connection.close()
            return
        facts = connection.facts
        until = building.worth_waiting_until(building.server_limit(sent, facts), sent_at, self._now())
        connection.owed_until, connection.owes_cursor = until, operation.creates_cursor
        comment = building.comment_of_abandoned(sent, facts, self._limits)
        if comment is not None and not facts.is_load_balanced:  # another connection may reach another server
            self._on_abandoned(connection.address, comment)

    def _end_refused(self, connection: Connection, reply: Document) -> None:
        """Handle a reply refused by the caller's codec options. The caller gets an error, and the cursor is lost."""
        if not opens_cursor(reply) or "nextBatch" in reply["cursor"]:
            return  # the cursor of a getMore is already known
        if connection.facts.is_load_balanced:
            connection.close()
        else:
            self._on_lost_cursor(connection.address, reply)

    # --- learning from the outcome ---

    @staticmethod
    def _learn_progress(run: Run, attempt: Attempt, connection: Connection, error: BaseException) -> None:
        """Learn how far a failed attempt got."""
        if attempt.progress is not ANSWERED:
            attempt.progress = connection.progress
        if run.part is not None:
            run.part.failed(attempt.progress, error)

    def _learn_times(self, run: Run, reply: Document) -> None:
        """Learn the cluster time and operation time, which every reply carries, even one with an error."""
        if "$clusterTime" in reply:
            self._builder.gossip(reply)
        session = run.call.session
        if session is not None:
            session.advance(reply)
            if run.part is not None and reply.get("ok") == 1:
                run.part.learn(reply)

    def _learn(self, run: Run, server: Server, connection: Connection, error: BaseException) -> None:
        """Update the session and the deployment after a failed attempt; `error` may be a cancellation."""
        if run.server_session is not None and (connection.stream.is_closed or connection.owed is not None):
            # The server may still be executing the session's command (driver sessions: "dirty").
            run.server_session.is_dirty = True
        if isinstance(error, PyMongoError):
            server.failed(error, connection.generation, service_id=connection.service_id)
            server.pool.learn(error)

    def _look_at_concern_error(self, attempt: Attempt, server: Server, connection: Connection, reply: Document) -> None:
        """Handle a write concern error, whether or not the write was applied: the server may have stepped down.

        Raises:
            WriteConcernError: A retry may help. Without a retry, the reply stands.
        """
        facts, concern, labels = connection.facts, reply["writeConcernError"], reply.get("errorLabels") or []
        if not isinstance(concern, Mapping) or not isinstance(labels, list):
            return  # `parse` raises the error
        error = write_concern_error(concern, labels)
        version = reply.get("topologyVersion")
        server.failed(error, connection.generation, topology_version=version, service_id=connection.service_id)
        # Ignore write errors next to it: a primary that steps down between two documents, or before a single one,
        # reports both, and the retry does not repeat applied writes.
        if classification.is_retryable_concern_error(reply, facts.max_wire_version, is_mongos=facts.is_mongos):
            attempt.progress, attempt.reply = ANSWERED, reply
            try:
                raise error
            finally:
                del error
