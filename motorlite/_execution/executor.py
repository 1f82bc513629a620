"""Shell: the single path of every command, and the only retry loop.

Select a server, check out a connection, build and decorate the command for that server, send it, report the outcome,
and act on the decision of `retry`. An operation that succeeds at the first attempt creates no retry state.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from motorlite._base.progress import Progress
from motorlite._connection.compressed_stream import LARGE
from motorlite._connection.messages import next_request_id
from motorlite._execution import classify
from motorlite._execution.attempt import Attempt
from motorlite._execution.building import CommandBuilder
from motorlite._execution.cursors.late_reply import worth_waiting_until
from motorlite._execution.cursors.pinning import PinnedConnection, opens_cursor
from motorlite._execution.failure import Failure
from motorlite._execution.operation import CursorReply, Kind, Opened
from motorlite._execution.retry import Again, Retry
from motorlite._execution.run import Run
from motorlite._execution.selecting import select, select_and_publish
from motorlite._sessions.session import Session
from motorlite._wire.error_replies import error_from_reply, write_concern_error
from motorlite.errors import REAUTHENTICATION_REQUIRED, InvalidOperation, OperationFailure, ProtocolError, PyMongoError
from motorlite.retry import RetryRefusal
from motorlite.topology_description import TopologyType

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite._base.values import Address, Document
    from motorlite._connection.connection import Connection
    from motorlite._execution.call import Call
    from motorlite._execution.deployment import Deployment
    from motorlite._execution.operation import Operation
    from motorlite._execution.reports import Reports
    from motorlite._execution.retry import Raise, RetrySettings
    from motorlite._overload.token_bucket import TokenBucket
    from motorlite._sessions.session import ServerSession, SessionPool
    from motorlite._topology.server import Server

R = TypeVar("R")
# The hot path reads these as globals: on Python 3.11, `Kind.READ` takes 0.28 µs and a global 0.02 µs.
READ, NOT_SENT, ANSWERED = Kind.READ, Progress.NOT_SENT, Progress.ANSWERED


class Executor:
    """Executes the operations of one client."""

    def __init__(
        self,
        deployment: Deployment,
        sessions: SessionPool,
        settings: RetrySettings,
        reports: Reports,
        *,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        server_selection_timeout: float,
        socket_timeout: float | None,
        api_declaration: Mapping[str, Any] | None,
        on_lost_cursor: Callable[[Address, Mapping[str, Any]], None],
    ) -> None:
        self._deployment = deployment
        self._sessions = sessions
        self._builder = CommandBuilder(sessions, retry_writes=settings.retry_writes, api_declaration=api_declaration)
        self._settings = settings
        self.bucket: TokenBucket | None = settings.bucket
        self.reports = reports
        self._now = now
        self._sleep = sleep
        self._server_selection_timeout = server_selection_timeout
        self._socket_timeout = inf if socket_timeout is None else socket_timeout
        # Called with replies whose cursor the caller never receives, and the address of their server.
        self._on_lost_cursor = on_lost_cursor
        # The client is closing.
        self._is_stopped = False

    def stop(self) -> None:
        """Release all waiters and stop retrying, because the client is closing. Operations in flight continue."""
        self._is_stopped = True
        self._deployment.stop()

    def use(self, deployment: Deployment) -> None:
        """Execute on `deployment` from now on. Operations waiting for a server continue on it."""
        self._deployment = deployment

    def gossip(self, reply: Mapping[str, Any]) -> None:
        """Learn the cluster time from a late reply."""
        self._builder.gossip(reply)

    def release(self, session: Session) -> None:
        """Return the server session of an implicit or ended session to the pool."""
        server_session, session.server_session = session.server_session, None
        if server_session is not None:
            self._release(server_session)

    async def execute(self, operation: Operation[R], call: Call) -> R:
        """Execute `operation`, with as many retries as its kind, the labels, the budget and the deadline allow.

        Returns:
            The result of the operation's `parse`, or of its `unacknowledged`.

        Raises:
            PyMongoError: The error that `classify.to_raise` selects among those of the attempts.
        """
        run = Run(operation, call)
        try:
            reply = await self._obtain(run)
            return operation.unacknowledged() if reply is None else self._parse(run, operation, reply)
        finally:
            self._end(run)

    async def open(self, operation: Operation[CursorReply], call: Call) -> Opened:
        """Execute an operation that opens a cursor. The cursor stays with its server and its session."""
        run = Run(operation, call)
        try:
            reply = await self._obtain(run)
            assert reply is not None, "operations with cursors are acknowledged"
            assert run.source is not None
            batch = self._parse(run, operation, reply)
            implicit = None
            if call.session is None and batch.cursor_id and run.server_session is not None:
                implicit = Session(is_implicit=True)
                implicit.server_session, run.server_session = run.server_session, None
            pin, run.pin = run.pin, None
            return Opened(batch, run.source, implicit, pin)
        finally:
            self._end(run)

    async def _obtain(self, run: Run) -> Document | None:
        """Make attempts until one succeeds or the retries end. Return the reply, or None for unacknowledged writes."""
        deadline = run.call.deadline
        if deadline.scope_expires_at == -inf:  # already cancelled: raise before using a connection
            await self._sleep(0)
        while True:
            attempt = Attempt()
            try:
                reply = await self._attempt(run, attempt)
            except PyMongoError as error:
                if self._now() >= deadline.scope_expires_at:
                    # The caller's scope ends now. Raise its cancellation, not the server's error.
                    await self._sleep(0.001)
                failure = decision = None
                try:
                    decision = self._decide(run, attempt.failed(run, error))
                    if isinstance(decision, Again):
                        if decision.delay:
                            await self._back_off(run, attempt, decision.delay)
                        run.is_retry = True
                        continue
                    failure = decision.failure
                    if failure.reply is not None:
                        # The write was applied. The operation interprets its write concern error.
                        run.source, run.standing = failure.address, failure
                        return failure.reply
                    run.annotate(failure)
                    if failure.error is error:
                        raise
                    raise failure.error from error
                finally:
                    # This frame must not reference an error that was raised through it.
                    failure = decision = None
            if run.retry is not None:
                run.retry.succeeded()
            elif self.bucket is not None:
                self.bucket.first_attempt_succeeded()
            return reply

    def _parse(self, run: Run, operation: Operation[R], reply: Document) -> R:
        try:
            return operation.parse(reply)
        except PyMongoError as error:
            self._refuse(run, reply, error)
            raise
        except Exception as error:  # a reply of unexpected shape
            unusable = ProtocolError(f"the reply to {operation.name} cannot be used: {error!r}")
            self._refuse(run, reply, unusable)
            try:
                raise unusable from error
            finally:
                del unusable  # its traceback references this frame

    def _refuse(self, run: Run, reply: Document, error: PyMongoError) -> None:
        """End the operation with an error from a successful reply. A cursor in that reply is lost."""
        if run.pin is not None:
            run.pin.connection.close()
        elif run.operation.creates_cursor and run.source is not None:
            self._on_lost_cursor(run.source, reply)
        phase = None if run.standing is None else run.standing.phase
        Failure(error=error, progress=ANSWERED, address=run.source, phase=phase).annotate()
        if run.retry is None:
            error.attempts = 1
        else:
            run.retry.describe(error)

    def _end(self, run: Run) -> None:
        # Objects that outlive the operation must not reference errors raised through its frames: only the cyclic
        # garbage collector frees such a cycle.
        run.retry = run.standing = None
        if run.call.session is None and run.server_session is not None:
            self._release(run.server_session)
        if run.pin is not None:
            run.pin.release()

    # --- one attempt ---

    async def _attempt(self, run: Run, attempt: Attempt) -> Document | None:
        operation = run.operation
        pin = operation.pin
        server: Server | None
        if pin is not None:
            assert isinstance(pin, PinnedConnection)
            server = pin.server
        elif self.reports.publish_selection is None:
            server = self._deployment.select_now(operation.selector, run.deprioritized)
            if server is None:
                server = await select(self._deployment, run, attempt, self._now() + self._server_selection_timeout)
        else:
            until = self._now() + self._server_selection_timeout
            server = await select_and_publish(
                lambda: self._deployment, run, attempt, until, self.reports.publish_selection
            )
        attempt.server = server
        attempt.description = server.description
        server.operation_count += 1
        try:
            if pin is None:
                connection = server.pool.check_out_now()
                if connection is None:
                    connection = await server.pool.check_out(run.call.deadline, self._check_out_limit(run, attempt))
            else:
                connection = pin.check_out()
            attempt.connection = connection
            try:
                try:
                    reply = await self._send(run, attempt, server, connection)
                except OperationFailure as error:
                    if error.code != REAUTHENTICATION_REQUIRED or not connection.can_reauthenticate:
                        raise
                    # The server executed nothing. Send the command once more, even if it is not retryable, without
                    # counting a retry (authentication specification, "Reauthentication").
                    attempt.progress, attempt.phase = NOT_SENT, None
                    await self._reauthenticate(run, attempt, server, connection)
                    reply = await self._send(run, attempt, server, connection)
                if operation.creates_cursor and connection.facts.is_load_balanced and opens_cursor(reply):
                    run.pin = PinnedConnection(server, connection)
                run.source = server.address
                return reply
            finally:
                if pin is None and run.pin is None:
                    server.pool.check_in(connection)
        finally:
            server.operation_count -= 1

    def _check_out_limit(self, run: Run, attempt: Attempt) -> float:
        """With timeoutMS, selection and checkout share serverSelectionTimeoutMS (CSOT, "Server Selection")."""
        if not run.call.deadline.is_set:
            return inf
        if attempt.selection_until != inf:
            return attempt.selection_until
        return self._now() + self._server_selection_timeout

    async def _reauthenticate(self, run: Run, attempt: Attempt, server: Server, connection: Connection) -> None:
        deadline = run.call.deadline
        until, operation_until = self._now() + self._socket_timeout, None
        if deadline.is_set:
            until = operation_until = deadline.expires_at
        try:
            await connection.reauthenticate(until, operation_until)
        except BaseException as error:
            attempt.phase = "reply"
            self._learn(run, server, connection, error)
            raise

    async def _send(self, run: Run, attempt: Attempt, server: Server, connection: Connection) -> Document | None:
        operation, deadline, facts = run.operation, run.call.deadline, connection.facts
        now = self._now()
        request_id = next_request_id()
        command, message = self._builder.build(run, attempt, facts, request_id, now, self._deployment.description)
        if len(message) >= LARGE:
            # The socket's limit and the command's events start when the message is sent.
            message, now = await connection.prepare(message, deadline.expires_at), self._now()
        until = now + self._socket_timeout if not deadline.is_set else deadline.expires_at
        events = None
        if self.reports.publish_command is not None:
            events = self.reports.command(run, command, connection, request_id, now)
        try:
            if not operation.is_acknowledged:
                await connection.send_only(message, until)
                if events is not None:
                    events.succeeded({"ok": 1}, self._now())
                return None
            reply = await connection.round_trip(
                message, request_id, until, operation.codec_options, operation.document_fields
            )
            if reply.get("ok") != 1:
                attempt.progress = ANSWERED
                self._learn_times(run, reply)
                raise error_from_reply(reply, facts.max_wire_version)
        except BaseException as error:
            attempt.phase = "reply"
            if attempt.progress is not ANSWERED:
                attempt.progress = connection.progress
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
        self._learn_times(run, reply)
        if operation.kind is not READ and "writeConcernError" in reply:
            self._look_at_concern_error(attempt, server, connection, reply)
        return reply

    def _abandon(self, operation: Operation[Any], connection: Connection, sent: Document, sent_at: float) -> None:
        """Release the caller from waiting. The pool may wait for the pending reply instead."""
        if operation.is_await_data or (
            connection.facts.is_load_balanced and (operation.creates_cursor or operation.pin is not None)
        ):
            # Behind a load balancer, closing the connection also ends a cursor that no other connection can reach.
            connection.close()
        else:
            connection.abandon(worth_waiting_until(sent, sent_at, self._now()))

    def _end_refused(self, connection: Connection, reply: Document) -> None:
        """Handle a reply refused by the caller's codec options. The caller gets an error, and the cursor is lost."""
        if not opens_cursor(reply) or "nextBatch" in reply["cursor"]:
            return  # the cursor of a getMore is already known
        if connection.facts.is_load_balanced:
            connection.close()
        else:
            self._on_lost_cursor(connection.address, reply)

    # --- learning from the outcome ---

    def _learn_times(self, run: Run, reply: Document) -> None:
        """Learn the cluster time and operation time, which every reply carries, even one with an error."""
        if "$clusterTime" in reply:
            self._builder.gossip(reply)
        session = run.call.session
        if session is not None:
            session.advance(reply)

    def _learn(self, run: Run, server: Server, connection: Connection, error: BaseException) -> None:
        """Update the session and the deployment after a failed attempt; `error` may be a cancellation."""
        if run.server_session is not None and (connection.stream.is_closed or connection.owed is not None):
            # The server may still be executing the session's command (driver sessions: "dirty").
            run.server_session.is_dirty = True
        if isinstance(error, PyMongoError):
            server.failed(error, connection.generation, service_id=connection.service_id)

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
        if classify.is_retryable_concern_error(reply, facts.max_wire_version, is_mongos=facts.is_mongos):
            attempt.progress, attempt.reply = ANSWERED, reply
            try:
                raise error
            finally:
                del error

    # --- retries ---

    def _decide(self, run: Run, failure: Failure) -> Again | Raise:
        retry = run.retry
        if retry is None:
            retry = run.retry = Retry(self._settings, run.operation, run.call.deadline)
        is_sharded = self._deployment.description.topology_type is TopologyType.Sharded
        decision = retry.after(failure, self._now(), is_sharded=is_sharded, is_closing=self._is_stopped)
        self.reports.decided(run, retry, decision)
        if decision.deprioritize and failure.address is not None and failure.address not in run.deprioritized:
            run.deprioritized = (*run.deprioritized, failure.address)
        return decision

    async def _back_off(self, run: Run, attempt: Attempt, delay: float) -> None:
        retry, until = run.retry, self._now() + delay
        assert retry is not None
        try:
            if attempt.connection is not None or attempt.server is None:
                await self._deployment.pause(until)
            else:
                # The attempt got no connection. If the server is dead, not overloaded, use its successor at once.
                await self._deployment.back_off(run.operation.selector, attempt.server.address, until)
        except BaseException:
            retry.gave_up()
            raise
        if self._is_stopped:
            error = retry.newest.annotate()
            retry.gave_up(RetryRefusal.CLOSED)
            message = "the client was closed while the operation waited for its next attempt"
            raise retry.describe(InvalidOperation(message)) from error

    def _release(self, server_session: ServerSession) -> None:
        minutes = self._deployment.description.logical_session_timeout_minutes
        self._sessions.release(server_session, self._now(), minutes)
