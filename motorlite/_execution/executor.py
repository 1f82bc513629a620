"""Shell: the single path of every command, and the only retry loop.

Select a server, check out a connection, let `Sender` send the command, report the outcome, and act on the decision of
`retry`. An operation that succeeds at the first attempt creates no retry state.
"""

from __future__ import annotations

from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from motorlite._base.error_codes import REAUTHENTICATION_REQUIRED
from motorlite._base.progress import Progress
from motorlite._execution import degrading
from motorlite._execution.attempt import Attempt
from motorlite._execution.cursors.pinning import PinnedConnection, opens_cursor
from motorlite._execution.failure import Failure
from motorlite._execution.operation import CursorReply, Opened
from motorlite._execution.retries.consult import consult
from motorlite._execution.retries.decisions import Again, Ask, ExpireAfter
from motorlite._execution.retry import Retry
from motorlite._execution.run import Run
from motorlite._execution.selecting import select, select_and_publish
from motorlite._execution.sender import Sender
from motorlite._pool.requests import Ticket
from motorlite._sessions.session import Session
from motorlite.errors import AdmissionError, InvalidOperation, OperationFailure, ProtocolError, PyMongoError
from motorlite.retry import RetryRefusal, RetryRule
from motorlite.topology_description import TopologyType

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from motorlite._base.values import Address, Document
    from motorlite._connection.connection import Connection
    from motorlite._execution.call import Call
    from motorlite._execution.deployment import Deployment
    from motorlite._execution.limits.admission import Admission
    from motorlite._execution.operation import Operation
    from motorlite._execution.reports import PublishedOperation, Reports
    from motorlite._execution.retries.decisions import Raise
    from motorlite._execution.retry import RetrySettings
    from motorlite._overload.server_limits import ServerLimits
    from motorlite._sessions.session import ServerSession, SessionPool
    from motorlite._topology.server import Server
    from motorlite.retry import RetryBudget

R = TypeVar("R")
_ALWAYS, _STRATEGY = RetryRule.ALWAYS, RetryRule.STRATEGY


class Executor:
    """Executes the operations of one client."""

    def __init__(
        self,
        deployment: Deployment,
        sessions: SessionPool,
        settings: RetrySettings,
        limits: ServerLimits,
        reports: Reports,
        *,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        server_selection_timeout: float,
        socket_timeout: float | None,
        api_declaration: Mapping[str, Any] | None,
        on_lost_cursor: Callable[[Address, Mapping[str, Any]], None],
        on_abandoned: Callable[[Address, str], None],
        admission: Admission | None = None,
        degrades: bool = False,
    ) -> None:
        self._deployment = deployment
        # Rate limits, breakers and concurrency limits; None if none is configured.
        self._admission = admission
        # Whether the fallback of a call answers what the client refuses to send.
        self._degrades = degrades
        self._sessions = sessions
        self._sender = Sender(
            sessions,
            limits,
            reports,
            now=now,
            retry_writes=settings.retry_writes,
            socket_timeout=socket_timeout,
            api_declaration=api_declaration,
            on_lost_cursor=on_lost_cursor,
            on_abandoned=on_abandoned,
        )
        self._settings = settings
        self.bucket: RetryBudget | None = settings.bucket
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
        if self._admission is not None:
            self._admission.stop()

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
        published = self._publish_start(run) if self.reports.publish_operation else None
        try:
            try:
                reply = await self._obtain(run)
                result = operation.unacknowledged() if reply is None else self._parse(run, operation, reply)
            except AdmissionError as error:
                block = degrading.fallback_of(operation, call) if self._degrades else None
                if block is None:
                    raise
                self.reports.degraded(run, block, error)
                instead = degrading.redirected(operation, call, block)
                result = await (degrading.answer(block, error) if instead is None else self.execute(*instead))
        except BaseException as error:
            self._failed(published, error)
            raise
        finally:
            self._end(run)
        if published is not None:
            published.succeeded(self._now())
        return result

    async def open(self, operation: Operation[CursorReply], call: Call) -> Opened:
        """Execute an operation that opens a cursor. The cursor stays with its server and its session."""
        run = Run(operation, call)
        published = self._publish_start(run) if self.reports.publish_operation else None
        try:
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
                opened = Opened(batch, run.source, implicit, pin)
            except AdmissionError as error:
                block = degrading.fallback_of(operation, call) if self._degrades else None
                if block is None:
                    raise
                self.reports.degraded(run, block, error)
                instead = degrading.redirected(operation, call, block)
                opened = await (degrading.opened(operation, block, error) if instead is None else self.open(*instead))
        except BaseException as error:
            self._failed(published, error)
            raise
        finally:
            self._end(run)
        if published is not None:
            published.succeeded(self._now())
        return opened

    @contextmanager
    def published(self, name: str, database: str, collection: str, operation_id: int) -> Iterator[None]:
        """Publish the start and end of an operation of several commands, which carry its id in their `Call`."""
        if not self.reports.publish_operation:
            yield
            return
        published = self.reports.operation(name, database, collection, operation_id, self._now())
        try:
            yield
        except BaseException as error:
            published.failed(error, self._now())
            raise
        published.succeeded(self._now())

    def _publish_start(self, run: Run) -> PublishedOperation | None:
        if run.call.operation_id is not None:
            return None  # a part of an operation that has published its own start
        operation = run.operation
        names = (operation.operation_name or operation.name, operation.database, operation.collection_name)
        return self.reports.operation(*names, run.operation_id, self._now())

    def _failed(self, published: PublishedOperation | None, error: BaseException) -> None:
        if isinstance(error, PyMongoError):
            self.reports.failures += 1
        if published is not None:
            published.failed(error, self._now())

    async def _obtain(self, run: Run) -> Document | None:
        """Make attempts until one succeeds or the retries end. Return the reply, or None for unacknowledged writes."""
        deadline = run.call.deadline
        if not self.reports.levels:
            self.reports.refresh()
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
                    decision = self._decide(run, attempt, attempt.failed(run, error))
                    if isinstance(decision, Ask):
                        decision = await self._consult(run, decision)
                    if isinstance(decision, Again):
                        if decision.delay:
                            await self._back_off(run, attempt, decision)
                        run.is_retry = True
                        continue
                    if isinstance(decision, ExpireAfter):
                        await self._deployment.pause(self._now() + decision.delay)
                        self._check_open(run)
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
                run.retry.succeeded(run.source)
            elif self.bucket is not None and not self.bucket.is_full:
                self.bucket.first_attempt_succeeded(run.source)
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
        Failure(error=error, progress=Progress.ANSWERED, address=run.source, phase=phase, limits=run.limits).annotate()
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
        visit, admission = None, self._admission
        if admission is not None:
            await admission.admit(run)
        server: Server | None
        if pin is not None:
            assert isinstance(pin, PinnedConnection)
            server = pin.server
        elif not self.reports.publish_selection:
            server = self._deployment.select_now(operation.selector, run.deprioritized)
            if server is None:
                attempt.waited_from = now = self._now()
                server = await select(self._deployment, run, attempt, now + self._server_selection_timeout)
        else:
            attempt.waited_from = now = self._now()
            until, publish = now + self._server_selection_timeout, self.reports.publish_selection
            server = await select_and_publish(lambda: self._deployment, run, attempt, until, publish)
        attempt.server = server
        attempt.description = server.description
        server.attempts += 1
        try:
            if admission is not None:
                visit = admission.enter(run, server)
            if pin is None:
                connection = server.pool.check_out_now()
                if connection is None:
                    limit = self._check_out_limit(run, attempt)
                    connection = await server.pool.check_out(run.call.deadline, limit, self._ticket(run, server))
            else:
                connection = pin.check_out()
            attempt.connection = connection
            sender, deployment = self._sender, self._deployment
            try:
                reply = await sender.send(run, attempt, server, connection, deployment.description)
            except OperationFailure as error:
                if error.code == REAUTHENTICATION_REQUIRED and self._may_reauthenticate(run, connection):
                    await sender.reauthenticate(run, attempt, server, connection)
                    attempt.progress, attempt.is_reauthenticated = Progress.ANSWERED, True
                raise
            if operation.creates_cursor and connection.facts.is_load_balanced and opens_cursor(reply):
                run.pin = PinnedConnection(server, connection)
            run.source = server.address
            if admission is not None:
                admission.replied(visit, run, attempt)
            return reply
        except BaseException as error:
            if attempt.connection is not None and isinstance(error, PyMongoError):
                # A retry keeps the age of the operation.
                run.entered = min(run.entered, attempt.connection.asked_for_at)
            if admission is not None:
                admission.failed(visit, run, attempt, error)
            raise
        finally:
            if pin is None and run.pin is None and attempt.connection is not None:
                server.pool.check_in(attempt.connection)
            server.attempts_ended += 1

    def _may_reauthenticate(self, run: Run, connection: Connection) -> bool:
        """Whether the server's request is followed. The connection's second request within an operation is an error."""
        if not connection.can_reauthenticate:
            return False
        return run.retry is None or not run.retry.has_reauthenticated((connection.address, connection.id))

    def _check_out_limit(self, run: Run, attempt: Attempt) -> float:
        """With timeoutMS, selection and checkout share serverSelectionTimeoutMS (CSOT, "Server Selection")."""
        if attempt.waited_from is None:
            attempt.waited_from = self._now()
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

    def _decide(self, run: Run, attempt: Attempt, failure: Failure) -> Again | Raise | Ask:
        retry, call, now = run.retry, run.call, self._now()
        if retry is None:
            started_at = attempt.started_at(now)
            retry = run.retry = Retry(self._settings, run.operation, call.deadline, call.options, started_at)
        is_sharded = self._deployment.description.topology_type is TopologyType.Sharded
        decision = retry.after(failure, now, is_sharded=is_sharded, is_closing=self._is_stopped)
        return decision if isinstance(decision, Ask) else self._decided(run, retry, decision)

    async def _consult(self, run: Run, ask: Ask) -> Again | Raise:
        retry = run.retry
        assert retry is not None
        answer = await consult(ask, min(run.call.deadline.expires_at, self._now() + self._server_selection_timeout))
        return self._decided(run, retry, retry.conclude(answer, self._now(), is_closing=self._is_stopped))

    def _decided(self, run: Run, retry: Retry, decision: Again | Raise) -> Again | Raise:
        self.reports.decided(run, retry, decision)
        address = retry.newest.address
        if decision.deprioritize and address is not None and address not in run.deprioritized:
            run.deprioritized = (*run.deprioritized, address)
        return decision

    async def _back_off(self, run: Run, attempt: Attempt, decision: Again) -> None:
        retry, until = run.retry, self._now() + decision.delay
        assert retry is not None
        if decision.rule is _ALWAYS:  # also while the client is closing
            await self._sleep(decision.delay)
            return
        try:
            if attempt.connection is not None or attempt.server is None or decision.rule is _STRATEGY:
                await self._deployment.pause(until)
            else:
                # The attempt got no connection. If the server is dead, not overloaded, use its successor at once.
                await self._deployment.back_off(run.operation.selector, attempt.server.address, until)
        except BaseException:
            retry.gave_up()
            raise
        if self._is_stopped:
            retry.gave_up(RetryRefusal.CLOSED)
            self._check_open(run)

    def _check_open(self, run: Run) -> None:
        """Raise InvalidOperation if the client was closed during a delay."""
        if self._is_stopped:
            assert run.retry is not None
            message = "the client was closed while the operation waited for its next attempt"
            raise run.retry.describe(InvalidOperation(message)) from run.retry.newest.annotate()

    def _release(self, server_session: ServerSession) -> None:
        minutes = self._deployment.description.logical_session_timeout_minutes
        self._sessions.release(server_session, self._now(), minutes)
