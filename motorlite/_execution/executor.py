"""Shell: the single path of every command, and the only retry loop.

Select a server, check out a connection, let `Sender` send the command, report the outcome, and act on the decision of
`retry`. An operation that succeeds at the first attempt creates no retry state.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from motorlite._base.error_codes import REAUTHENTICATION_REQUIRED
from motorlite._base.progress import Progress
from motorlite._execution import degrading
from motorlite._execution.attempt import Attempt
from motorlite._execution.cursors.pinning import PinnedConnection, opens_cursor
from motorlite._execution.failure import Failure
from motorlite._execution.operation import CursorReply, Opened
from motorlite._execution.retry import Again, Retry
from motorlite._execution.run import Run
from motorlite._execution.selecting import select, select_and_publish
from motorlite._execution.sender import Sender
from motorlite._pool.requests import Ticket
from motorlite._sessions.session import Session
from motorlite.errors import AdmissionError, InvalidOperation, OperationFailure, ProtocolError, PyMongoError
from motorlite.retry import RetryRefusal
from motorlite.topology_description import TopologyType

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from motorlite._base.values import Address, Document
    from motorlite._execution.call import Call
    from motorlite._execution.deployment import Deployment
    from motorlite._execution.operation import Operation
    from motorlite._execution.reports import Reports
    from motorlite._execution.retry import Raise, RetrySettings
    from motorlite._overload.token_bucket import TokenBucket
    from motorlite._sessions.session import ServerSession, SessionPool
    from motorlite._topology.server import Server

R = TypeVar("R")


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
        degrades: bool = False,
    ) -> None:
        self._deployment = deployment
        # Whether the fallback of a call answers what the client refuses to send.
        self._degrades = degrades
        self._sessions = sessions
        self._sender = Sender(
            sessions,
            reports,
            now=now,
            retry_writes=settings.retry_writes,
            socket_timeout=socket_timeout,
            api_declaration=api_declaration,
            on_lost_cursor=on_lost_cursor,
        )
        self._settings = settings
        self.bucket: TokenBucket | None = settings.bucket
        self.reports = reports
        self._now = now
        self._sleep = sleep
        self._server_selection_timeout = server_selection_timeout
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
        self._sender.gossip(reply)

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
        except AdmissionError as error:
            block = degrading.fallback_of(operation, call) if self._degrades else None
            if block is None:
                raise
            self.reports.degraded(run, block, error)
            instead = degrading.redirected(operation, call, block)
            result: R = await (degrading.answer(block, error) if instead is None else self.execute(*instead))
            return result
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
        except AdmissionError as error:
            block = degrading.fallback_of(operation, call) if self._degrades else None
            if block is None:
                raise
            self.reports.degraded(run, block, error)
            instead = degrading.redirected(operation, call, block)
            if instead is not None:
                return await self.open(*instead)
            return await degrading.opened(operation, block, error)
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
        Failure(error=error, progress=Progress.ANSWERED, address=run.source, phase=phase).annotate()
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
                    limit = self._check_out_limit(run, attempt)
                    connection = await server.pool.check_out(run.call.deadline, limit, self._ticket(run, server))
            else:
                connection = pin.check_out()
            attempt.connection = connection
            try:
                sender, deployment = self._sender, self._deployment
                try:
                    reply = await sender.send(run, attempt, server, connection, deployment.description)
                except OperationFailure as error:
                    if error.code != REAUTHENTICATION_REQUIRED or not connection.can_reauthenticate:
                        raise
                    # The server executed nothing. Send the command once more, even if it is not retryable, without
                    # counting a retry (authentication specification, "Reauthentication").
                    await sender.reauthenticate(run, attempt, server, connection)
                    reply = await sender.send(run, attempt, server, connection, deployment.description)
                if operation.creates_cursor and connection.facts.is_load_balanced and opens_cursor(reply):
                    run.pin = PinnedConnection(server, connection)
                run.source = server.address
                return reply
            except PyMongoError:
                run.entered = min(run.entered, connection.asked_for_at)  # a retry keeps the age of the operation
                raise
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

    def _ticket(self, run: Run, server: Server) -> Ticket | None:
        """Return what the configured wait queue of `server` goes by; None without one."""
        if not server.pool.is_bounded:
            return None
        run.entered = min(run.entered, self._now())
        options = run.call.options
        return Ticket(run.entered, run.operation.size_hint, options.priority, options.assigned_priority)

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
