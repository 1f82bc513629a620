"""Shell: the single path of every command, and the only retry loop.

Select a server, check out a connection, let `Sender` send the command, report the outcome, and act on the decision of
`retry`. An operation that succeeds at the first attempt creates no retry state.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from motorlite._base.deadline import NO_DEADLINE
from motorlite._base.error_documents import REAUTHENTICATION_REQUIRED
from motorlite._base.values import Progress
from motorlite._execution import acquiring, degrading
from motorlite._execution.building import CommandBuilder
from motorlite._execution.pins import PinnedConnection, stays_pinned
from motorlite._execution.retrying import RetrySteps
from motorlite._execution.run import Attempt, Run
from motorlite._execution.sender import Sender
from motorlite._execution.transactions import part_of
from motorlite._operations.contract import Kind, Opened
from motorlite._retry.classification import leaves_unknown
from motorlite._retry.failure import Failure
from motorlite._sessions.session import Session
from motorlite.errors import AdmissionError, OperationFailure, ProtocolError, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address, Document
    from motorlite._connection.connection import Connection
    from motorlite._execution.acquiring import Deployment
    from motorlite._execution.admission import AdmissionSteps
    from motorlite._execution.building import CommandDefaults
    from motorlite._execution.encrypting import Encryption
    from motorlite._execution.reports import Reports
    from motorlite._operations.contract import Call, CursorReply, Operation
    from motorlite._retry.decision import RetrySettings
    from motorlite._sessions.session import SessionPool
    from motorlite._topology.topology import Server
    from motorlite.retry import RetryBudget

R = TypeVar("R")

_NOT_SENT = Progress.NOT_SENT


class Executor:
    """Executes the operations of one client."""

    def __init__(
        self,
        deployment: Deployment,
        sessions: SessionPool,
        settings: RetrySettings,
        limits: CommandDefaults,
        reports: Reports,
        *,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        take_turn: Callable[[Session, Deadline], Awaitable[None]],
        server_selection_timeout: float,
        socket_timeout: float | None,
        api_declaration: Mapping[str, Any] | None,
        on_lost_cursor: Callable[[Address, Mapping[str, Any]], None],
        on_abandoned: Callable[[Address, str], None],
        admission: AdmissionSteps | None = None,
        encryption: Encryption | None = None,
    ) -> None:
        self._deployment = deployment
        # Rate limits, breakers and concurrency limits; None if none is configured.
        self._admission = admission
        self._sessions = sessions
        builder = CommandBuilder(sessions, limits, retry_writes=settings.retry_writes, api_declaration=api_declaration)
        # Learns the cluster time from a reply.
        self.gossip: Callable[[Mapping[str, Any]], None] = builder.gossip
        make_sender: Callable[..., Sender] = Sender
        if encryption is not None:
            from motorlite._execution.encrypting import EncryptingSender

            make_sender = partial(EncryptingSender, encryption)
        self._sender = make_sender(
            builder,
            limits,
            reports,
            now=now,
            socket_timeout=socket_timeout,
            on_lost_cursor=on_lost_cursor,
            on_abandoned=on_abandoned,
        )
        self._retries = RetrySteps(
            deployment, settings, reports, now=now, sleep=sleep, server_selection_timeout=server_selection_timeout
        )
        self.bucket: RetryBudget | None = settings.bucket
        # A random number in [0, 1).
        self.jitter: Callable[[], float] = settings.jitter
        self.reports = reports
        # The sessions whose transaction stays open on the server until an abort.
        self.open_transactions: set[Session] = set()
        self._now = now
        self._sleep = sleep
        # Waits until earlier operations of a session with a transaction number have ended.
        self._take_turn = take_turn
        self._retry_writes = settings.retry_writes
        self._selection_timeout = server_selection_timeout
        # Called with replies whose cursor the caller never receives, and the address of their server.
        self._on_lost_cursor = on_lost_cursor

    def stop(self) -> None:
        """Release all waiters and stop retrying, because the client is closing. Operations in flight continue."""
        self._retries.is_stopped = True
        self._deployment.stop()
        if self._admission is not None:
            self._admission.stop()

    @property
    def is_pausing(self) -> bool:
        """Whether an operation that waited for its next attempt still has its session."""
        return self._retries.pausing > 0

    def release(self, session: Session) -> None:
        """Return the server session of an implicit or ended session to the pool."""
        self.open_transactions.discard(session)
        server_session, session.server_session = session.server_session, None
        if server_session is not None:
            minutes = self._deployment.description.logical_session_timeout_minutes
            self._sessions.release(server_session, self._now(), minutes)

    async def execute(self, operation: Operation[R], call: Call, *, opens: bool = False) -> R:
        """Execute `operation`, with as many retries as its kind, the labels, the budget and the deadline allow.

        `opens`: for `open`, which wants an `Opened`.

        Returns:
            The result of the operation's `parse`, or of its `unacknowledged`.

        Raises:
            PyMongoError: The error that `classify.to_raise` selects among those of the attempts.
        """
        run = Run(operation, call)
        if call.session is not None:
            await self._join(run, call.session)
        reports = self.reports
        if not reports.levels:
            reports.refresh()
        attempt = Attempt()
        published = reports.started(run, attempt, self._now()) if reports.follows else None
        try:
            try:
                if call.deadline is not NO_DEADLINE and call.deadline.scope_expires_at == -inf:
                    await self._sleep(0)  # already cancelled: raise before using a connection
                if call.session is not None:
                    await self._wait_for_turn(run, call.session)
                reply, has_failed = None, False
                try:
                    reply = await self._attempt(run, attempt)
                except Exception as error:
                    attempt.error, has_failed = error, True
                if has_failed:  # not in the handler, where the retries' errors would refer to this one
                    reply = await self._retry(run, attempt)
                elif self.bucket is not None and not self.bucket.is_full:
                    self.bucket.first_attempt_succeeded(run.source)
                try:
                    result = operation.unacknowledged() if reply is None else operation.parse(reply)
                except Exception as error:
                    try:
                        self._reject(run, reply, error)
                    finally:
                        await self.leave_to_scope(call.deadline)
                    raise
                if opens:
                    result = self._opened(run, result)
            except AdmissionError as error:
                block = degrading.fallback_of(operation, call)
                if block is None:
                    raise
                result = await degrading.answer(self.execute, run, block, error, opens=opens)
                self.reports.degraded(run, block, error)
        except BaseException as error:
            if call.operation_id is None:  # else a part of an operation that publishes its own end
                self.reports.failed(published, error, self._now())
            raise
        finally:
            self._end(run)
        if published is not None:
            published.succeeded(self._now())
        return result

    def open(self, operation: Operation[CursorReply], call: Call) -> Coroutine[Any, Any, Opened]:
        """Execute an operation that opens a cursor. The cursor stays with its server and its session."""
        opening: Operation[Any] = operation
        return self.execute(opening, call, opens=True)

    @staticmethod
    def _opened(run: Run, batch: Any) -> Any:
        """Return `batch`, a CursorReply, as an `Opened`, which gets the operation's server session and connection."""
        assert run.source is not None
        implicit = None
        if run.call.session is None and batch.cursor_id and run.server_session is not None:
            implicit = Session(is_implicit=True)
            implicit.server_session, run.server_session = run.server_session, None
        pin, run.pin = run.pin, None
        return Opened(batch, run.source, implicit, pin)

    async def _join(self, run: Run, session: Session) -> None:
        try:
            part = run.part = part_of(run.operation, session, self.open_transactions)
        except PyMongoError:
            await self._sleep(0)  # a caller that tries again at once must not starve other tasks
            raise
        if part is not None:
            run.operation = part.operation

    @contextmanager
    def published(
        self, name: str, database: str, collection: str | None, operation_id: int, session: Session | None = None
    ) -> Iterator[None]:
        """Publish the start and end of an operation of several commands, which carry its id in their `Call`."""
        reports, published = self.reports, None
        if reports.follows:
            published = reports.several(name, database, collection, operation_id, self._now(), session)
        try:
            yield
        except BaseException as error:
            reports.failed(published, error, self._now())
            raise
        if published is not None:
            published.succeeded(self._now())

    async def _wait_for_turn(self, run: Run, session: Session) -> None:
        """Wait for the turn of an operation whose session several tasks can use, if its order matters.

        It does if it may get the session's next transaction number, unless the session is implicit: its operations
        follow one another anyway. The first operation of a transaction begins it on the server, which would refuse what
        an earlier write sends after that.
        """
        operation = run.operation
        if run.part is not None:
            needs_turn = run.part.is_first
        else:
            is_numbered = self._retry_writes and operation.kind is Kind.WRITE and operation.is_retryable
            needs_turn = is_numbered and not session.is_implicit
        if needs_turn:
            await self._take_turn(session, run.call.deadline)
            run.has_turn = True
            self._retries.check_open()

    async def _retry(self, run: Run, attempt: Attempt) -> Document | None:
        """Go on after a failed attempt, until one succeeds or the retries end.

        Returns:
            The reply, or None for unacknowledged writes.
        """
        deadline = run.call.deadline
        while True:
            try:
                if attempt.error is not None:
                    first, attempt.error = attempt.error, None
                    context = first.__context__
                    try:
                        raise first
                    finally:
                        first.__context__ = context  # Python has replaced it with what the caller is handling
                        del first, context
                reply = await self._attempt(run, attempt)
                assert run.retry is not None
                run.retry.succeeded(run.source)
                return reply
            except PyMongoError as error:
                await self.leave_to_scope(deadline)
                failure = None
                try:
                    failure = await self._retries.follow(run, attempt, attempt.failed(run, error))
                    if failure is not None:
                        if failure.reply is not None:
                            # The write was applied. The operation interprets its write concern error.
                            run.source, run.standing = failure.address, failure
                            return failure.reply
                        run.annotate(failure)
                        if attempt.progress is _NOT_SENT:
                            await self._sleep(0)  # a refused operation may not have yielded yet
                        if failure.error is error:
                            raise
                        raise failure.error from error
                finally:
                    # This frame must not reference an error that was raised through it.
                    failure = None
            except Exception:  # bson cannot encode a value, and nothing has yielded yet
                await self._sleep(0)
                raise
            attempt = Attempt()
            if run.followed is not None:
                run.followed.attempt_again(attempt, self._now())

    async def leave_to_scope(self, deadline: Deadline) -> None:
        """Before an error of the server: if the caller's scope ends now, let it raise its cancellation instead."""
        if self._now() >= deadline.scope_expires_at:
            await self._sleep(0.001)

    def _reject(self, run: Run, reply: Document | None, error: Exception) -> None:
        """End the operation with an error from its `parse`. A cursor in the reply, which was successful, is lost."""
        rejected = error
        if not isinstance(rejected, PyMongoError):  # a reply of unexpected shape
            rejected = ProtocolError(f"the reply to {run.operation.name} cannot be used: {error!r}")
        if run.pin is not None:
            run.pin.connection.close()
        elif run.operation.creates_cursor and run.source is not None and reply is not None:
            self._on_lost_cursor(run.source, reply)
        if run.part is not None:
            run.part.refused(rejected)
        if leaves_unknown(rejected, run.operation):
            rejected.may_have_been_executed = True
        phase = None if run.standing is None else run.standing.phase
        progress = Progress.ANSWERED
        Failure(error=rejected, progress=progress, address=run.source, phase=phase, limits=run.limits).annotate()
        if run.retry is None:
            rejected.attempts = 1
        else:
            run.describe(rejected)
        try:
            if rejected is not error:
                raise rejected from error
        finally:
            del rejected  # its traceback references this frame

    def _end(self, run: Run) -> None:
        if run.retry is not None:
            # Objects that outlive the operation must not reference errors raised through its frames: only the cyclic
            # garbage collector frees such a cycle.
            run.retry = run.standing = None
        if run.call.session is None:
            if run.server_session is not None:
                minutes = self._deployment.description.logical_session_timeout_minutes
                self._sessions.release(run.server_session, run.ended_at or self._now(), minutes)
        else:
            # Python may raise a KeyboardInterrupt in any call. A transaction in use cannot be aborted, so it is first.
            try:
                if run.part is not None:
                    run.part.leave()
            finally:
                if run.has_turn:
                    run.call.session.end_turn()
        if run.pin is not None:
            run.pin.release()

    # --- one attempt ---

    async def _attempt(self, run: Run, attempt: Attempt) -> Document | None:
        operation = run.operation
        pin, selector = operation.pin, operation.selector
        if run.part is not None:
            pin, selector = pin or run.part.pin, run.part.selector
        visit, admission = None, self._admission
        if admission is not None:
            await admission.admit(run, attempt)
        server: Server | None = None
        if pin is not None:
            assert isinstance(pin, PinnedConnection)
            server = pin.server
        else:
            if not self.reports.publish_selection:
                server = self._deployment.select_now(selector, run.deprioritized)
            if server is None:
                server = await self._select(run, attempt)
        attempt.server, attempt.description = server, server.description
        server.attempts += 1
        try:
            if admission is not None:
                visit = admission.enter(run, server)
            if pin is None:
                connection = server.pool.check_out_now()
                if connection is None:
                    connection = server.pool.received(await self._check_out(server, run, attempt))
                attempt.sent_at = connection.in_use_since  # this moment, without another look at the clock
            else:
                connection, attempt.sent_at = pin.check_out(), self._now()
            attempt.connection = connection
            try:
                reply = await self._sender.send(run, attempt, server, connection, self._deployment.description)
            except OperationFailure as error:
                if error.code == REAUTHENTICATION_REQUIRED and self._may_reauthenticate(run, connection):
                    await self._sender.reauthenticate(run, attempt, server, connection)
                raise
            if operation.creates_cursor and run.part is None and stays_pinned(operation, connection, reply):
                run.pin = PinnedConnection(server, connection)
            run.source = server.address
            if admission is not None:
                admission.replied(visit, run, attempt)
            return reply
        except BaseException as error:
            if attempt.connection is not None:
                # A retry keeps the age of the operation.
                run.entered = min(run.entered, attempt.connection.asked_for_at)
            elif attempt.request is not None:
                server.pool.left(attempt.request)
            attempt.request = None  # it may have the error
            if admission is not None:
                admission.failed(visit, run, attempt, error)
            raise
        finally:
            used = attempt.connection
            if used is not None and pin is None and run.pin is None and (run.part is None or not attempt.is_pinned):
                server.pool.check_in(used)
                run.ended_at = used.idle_since
            server.attempts_ended += 1

    def _check_out(self, server: Server, run: Run, attempt: Attempt) -> Awaitable[Connection]:
        waiting = acquiring.check_out(server, run, attempt, self._now(), self._selection_timeout)
        return waiting if run.retry is None else self._retries.while_pausing(waiting)

    async def _select(self, run: Run, attempt: Attempt) -> Server:
        publish, now, timeout = self.reports.publish_selection, self._now(), self._selection_timeout
        if publish:
            waiting = acquiring.select_and_publish(lambda: self._deployment, run, attempt, now, timeout, publish)
        else:
            waiting = acquiring.select(self._deployment, run, attempt, now, timeout)
        return await (waiting if run.retry is None else self._retries.while_pausing(waiting))

    def _may_reauthenticate(self, run: Run, connection: Connection) -> bool:
        """Whether the server's request is followed. The connection's second request within an operation is an error."""
        if connection.renew is None:
            return False
        return run.retry is None or not run.retry.has_reauthenticated((connection.address, connection.id))
