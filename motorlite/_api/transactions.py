"""Shell: the transactions of a session: its methods, and the events about them."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Self, TypeVar

from motorlite._api import time_limits
from motorlite._api.transaction_options import SessionOptions, TransactionOptions, effective
from motorlite._api.turns import give_way
from motorlite._base.arguments import converted, wrong
from motorlite._base.error_documents import UNKNOWN_COMMIT_RESULT
from motorlite._client.leftovers import is_aborted
from motorlite._operations.contract import Call
from motorlite._sessions.session import ENDED, Session
from motorlite.errors import InvalidOperation, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from types import TracebackType

    from motorlite._base.deadline import Deadline
    from motorlite._client.core import Core
    from motorlite._execution.reports import PublishedOperation
    from motorlite._operations.contract import CallOptions
    from motorlite._sessions.convenient import TransactionRetries
    from motorlite._sessions.session import Concerns, Transaction
    from motorlite.read_concern import ReadConcern
    from motorlite.read_preferences import ServerMode
    from motorlite.write_concern import WriteConcern


# Publishes transactions as operations that other operations are part of (OpenTelemetry specification).


class PublishedPart:
    """The published operation that the operations of a session are part of until `end`."""

    __slots__ = ("_core", "_outer", "_published", "_session")

    def __init__(self, name: str, core: Core, session: Session) -> None:
        self._core = core
        self._session = session
        # What it is part of itself.
        self._outer = session.enclosing
        self._published: PublishedOperation | None = None
        reports = core.executor.reports
        if reports.publish_operation:
            operation_id = core.new_operation_id()
            self._published = reports.operation(name, "admin", None, operation_id, core.now(), session)
            session.enclosing = operation_id

    def end(self, error: BaseException | None = None) -> None:
        """Publish its end, once."""
        published, self._published = self._published, None
        if published is None:
            return
        self._session.enclosing = self._outer
        if error is None:
            published.succeeded(self._core.now())
        else:
            published.failed(error, self._core.now())


# The methods of a session that start and end transactions (transactions specification).

T = TypeVar("T")


class AsyncClientSession:
    """The state of a session, and its transactions."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_call_options",
        "_client",
        "_core",
        "_generation",
        "_has_ended",
        "_inherited",
        "_options",
        "_published",
        "_state",
        "_timeout",
    )

    def __init__(
        self,
        client: Any,
        core: Core,
        options: SessionOptions,
        inherited: Concerns,
        timeout: float | None,
        call_options: CallOptions,
    ) -> None:
        self._client = client
        self._core = core
        self._generation = core.generation
        self._has_ended = False
        # The client's concerns, which transactions inherit, its timeoutMS in seconds, and its options of calls.
        self._inherited = inherited
        self._timeout = timeout
        self._call_options = call_options
        self._options = options
        # The transaction, since its first operation.
        self._published: PublishedPart | None = None
        self._state = Session(
            is_implicit=False,
            is_causally_consistent=options.causal_consistency,
            is_snapshot=options.snapshot,
            snapshot_time=options.snapshot_time,
        )

    def _check_open(self) -> None:
        if self._has_ended:
            raise InvalidOperation(ENDED)
        if self._core.is_of_parent(self._generation):
            raise InvalidOperation(
                "the session, with its transaction, was started before a fork and belongs to the parent process: "
                "start another one"
            )

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was started and neither committed nor aborted."""
        return self._state.in_transaction

    def start_transaction(
        self,
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
        read_preference: ServerMode | None = None,
        max_commit_time_ms: float | None = None,
    ) -> TransactionContext:
        """Start a transaction. Sends nothing: the first operation begins it on the server.

        ``async with session.start_transaction():`` commits at the end of the block, or aborts after an exception.
        Awaiting the call first changes nothing.

        An error of the server in a transaction aborts it there. After an error with the label
        ``TransientTransactionError``, the whole transaction may be repeated; `with_transaction` does that.

        Args:
            read_concern: See `TransactionOptions`, like the other arguments.
            write_concern: See there.
            read_preference: See there.
            max_commit_time_ms: See there.

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidOperation: A transaction is in progress, the session has ended, or it reads from a snapshot.
            ConfigurationError: The write concern is not acknowledged.

        Source: transactions specification.
        """
        options = TransactionOptions(read_concern, write_concern, read_preference, max_commit_time_ms)
        self._start(options)
        return TransactionContext(self)

    def _start(self, options: TransactionOptions) -> None:
        self._check_open()
        self._leave_unsent_commit()
        concerns = effective(options, self._options.default_transaction_options, self._inherited)
        held = self._state.start_transaction(concerns)
        self._publish_end()
        if held is not None:
            held.release()

    async def commit_transaction(self, timeoutMS: float | None = None) -> None:
        """Commit the transaction. After it was committed, or after an error, it may be called again.

        After an error with the label ``UnknownTransactionCommitResult``, calling it again is safe, and tells whether
        the transaction is committed.

        Args:
            timeoutMS: Time limit, in place of the session's `defaultTimeoutMS`; 0 for no limit.

        Raises:
            InvalidOperation: No transaction was started, it was aborted, or an operation of it is still running.
            WriteConcernError: The transaction is committed, but its write concern was not satisfied.
            PyMongoError: The commit failed.

        Retries: as a retryable write, even with retryWrites=False (docs/retries.md).

        Source: transactions specification.
        """
        state, core = self._state, self._core
        try:
            transaction = self._started()
            deadline = self._deadline(timeoutMS)
            has_begun = transaction.commit()
        except PyMongoError:
            await give_way()
            raise
        if has_begun:
            from motorlite._operations.sessions import CommitTransaction

            operation = CommitTransaction(transaction.concerns.max_commit_time_ms)
            try:
                await core.executor.execute(operation, Call(state, deadline, options=self._call_options))
            except BaseException as error:
                self._publish_end(error)
                raise
        self._publish_end()

    def _started(self) -> Transaction:
        """Return the transaction that a call ends."""
        self._check_open()
        transaction = self._state.started_transaction()
        self._core.enter()
        return transaction

    async def abort_transaction(self, timeoutMS: float | None = None) -> None:
        """Abort the transaction. Errors of the server and the network are ignored.

        If the abort does not reach the server, or the call is cancelled, the transaction is aborted in the background.

        Args:
            timeoutMS: Time limit, in place of the session's `defaultTimeoutMS`; 0 for no limit.

        Raises:
            InvalidOperation: No transaction was started, it has ended, or an operation of it is still running.

        Retries: as a retryable write, even with retryWrites=False (docs/retries.md).

        Source: transactions specification.
        """
        try:
            transaction = self._started()
            seconds = inf if timeoutMS is None else converted("timeoutMS", timeoutMS, time_limits.duration_from_ms)
            transaction.check_end("abort")
        except PyMongoError:
            await give_way()
            raise
        await self._abort(self._default_seconds() if timeoutMS is None else seconds)

    async def _abort(self, seconds: float) -> None:
        """Abort the transaction, within `seconds`."""
        from motorlite._operations.sessions import AbortTransaction

        state, core = self._state, self._core
        transaction = state.started_transaction()
        if not transaction.abort():
            self._publish_end()
            return
        is_done = has_failed = False
        try:
            # Restarted, like that of a cursor's close: the transaction often fails because time has run out.
            call = Call(state, time_limits.for_close(core, seconds), options=self._call_options)
            await core.executor.execute(AbortTransaction(), call)
            is_done = True
        except PyMongoError as error:
            is_done, has_failed = is_aborted(transaction, error), True
        finally:
            if not is_done and state.transaction is transaction:  # else the session has ended meanwhile
                core.abort_transaction(state, has_failed=has_failed)
            self._publish_end()

    async def _abort_after(self, error: BaseException, seconds: float | None = None) -> None:
        """Abort the transaction after an error, which no other error may hide, in `seconds` or the usual limit.

        A cancelled task waits for no server (on asyncio, nothing would cancel it a second time), nor does one that ends
        with its event loop. The transaction is then aborted in the background, after its running operation, if there is
        one.
        """
        state = self._state
        transaction = state.started_transaction()
        try:
            self._core.enter()
        except InvalidOperation:
            self._core.abort_left(state)  # the client is closing or closed, or its event loop has ended
            return
        if isinstance(error, Exception) and not transaction.is_busy:
            await self._abort(self._default_seconds() if seconds is None else seconds)
            return
        if state.must_abort or transaction.is_busy:
            self._core.abort_transaction(state)
        else:
            transaction.abort()
        self._publish_end()

    def _leave_commit(self) -> None:
        """After the last commit: abort in the background what no server has begun to commit."""
        if self._state.must_abort:
            self._core.abort_left(self._state)

    def _leave_unsent_commit(self) -> None:
        """Abort the last transaction if no server took its commit: the session is used for something else now."""
        state = self._state
        if state.transaction is not None and not state.in_transaction and state.must_abort:
            self._core.abort_left(state)

    async def with_transaction(
        self,
        callback: Callable[[Self], Awaitable[T]],
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
        read_preference: ServerMode | None = None,
        max_commit_time_ms: float | None = None,
        timeoutMS: float | None = None,
    ) -> T:
        """Execute `callback` in a transaction, and commit it. Both are repeated when that is safe.

        `callback` gets this session and passes it to its operations. It may be executed several times, so it should do
        nothing besides that cannot be repeated. It must let errors of its operations out, because the transaction has
        been aborted by then: committing it would fail, and be repeated until time runs out. It must not start another
        transaction. If it commits or aborts the transaction itself, its result is returned as it is.

        The transaction is executed anew after an error with the label ``TransientTransactionError``, after a random
        delay of up to 7.5 ms, 11 ms, 17 ms ... 500 ms; and committed anew after an error with the label
        ``UnknownTransactionCommitResult``: once without a delay, then after up to 1, 10, 50, 100, 500 and 1000 ms, for
        a token of the retry budget each time. It gives up after 120 seconds, at the time limit, or without a token.

        Args:
            callback: A function that takes the session and returns an awaitable.
            read_concern: See `TransactionOptions`, like the next three arguments.
            write_concern: See there.
            read_preference: See there.
            max_commit_time_ms: See there.
            timeoutMS: Time limit of the whole call, in place of the session's `defaultTimeoutMS`; 0 for no limit. It
                applies to all operations of `callback` that use the session, which must not have a timeoutMS of their
                own. Aborting the transaction afterwards may take as long again.

        Returns:
            What `callback` returned.

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidOperation: A transaction is in progress, the session has ended, or it reads from a snapshot.
            ConfigurationError: The write concern is not acknowledged.
            ExecutionTimeout, NetworkTimeout: Time ran out; ``__cause__`` is the newest error, which gives it its
                labels. A newest error whose `timeout` is true is raised itself.
            Exception: Any other error of `callback` or of the commit.

        Retries: besides, the commit as a retryable write, even with retryWrites=False (docs/retries.md).

        Source: convenient API for transactions specification.
        """
        if not callable(callback):
            raise TypeError(wrong("callback", callback, "a function that takes the session"))
        options = TransactionOptions(read_concern, write_concern, read_preference, max_commit_time_ms)
        try:
            self._check_open()
            self._core.enter()
        except PyMongoError:
            await give_way()
            raise
        deadline = self._deadline(timeoutMS)
        # That of a call around this one, which fails if it is still in its transaction.
        outer, self._state.deadline = self._state.deadline, deadline if deadline.is_set else None
        whole = PublishedPart("withTransaction", self._core, self._state)
        try:
            result = await self._repeat(callback, options, deadline)
        except BaseException as error:
            whole.end(error)
            raise
        finally:
            self._state.deadline = outer
        whole.end()
        return result

    async def _repeat(
        self, callback: Callable[[Self], Awaitable[T]], options: TransactionOptions, deadline: Deadline
    ) -> T:
        """Execute `callback` between start and commit, until that succeeds or must not be repeated."""
        from motorlite._sessions.convenient import After, TransactionRetries

        core = self._core
        retries = TransactionRetries(deadline, core.executor.jitter, core.now(), core.executor.bucket)
        while True:
            try:
                self._start(options)
            except PyMongoError:
                await core.checkpoint()
                raise
            retries.started()
            try:
                result = await callback(self)
            except BaseException as error:
                if self.in_transaction:
                    await self._abort_after(error, deadline.timeout)
                after, delay = retries.after_callback(error, core.now())
                if after is After.TIME_OUT:
                    _raise_timeout(retries, error)
                if after is not After.START_AGAIN:
                    raise
            else:
                # A callback may have ended the transaction itself.
                if not self.in_transaction:
                    return result
                wait = await self._committed(partial(self._commit_again, retries), deadline.timeout)
                if wait is None:
                    return result
                delay = wait
            await core.sleep(delay)

    async def _commit_again(self, retries: TransactionRetries) -> float | None:
        """Commit. Returns after how many seconds to start another transaction, or None if it is committed."""
        from motorlite._sessions.convenient import After

        transaction, newest = self._state.started_transaction(), None
        try:
            while True:
                sent = transaction.commits_sent
                try:
                    await self.commit_transaction()
                except PyMongoError as error:
                    was_refused = isinstance(error, InvalidOperation) and transaction.commits_sent == sent
                    if newest is not None and was_refused:  # the client was closed, or the session ended
                        retries.refused(error, newest, may_be_committed=transaction.may_be_committed)
                        raise error from error.__cause__ or newest
                    after, delay = retries.after_commit(error, self._core.now())
                    if after is After.TIME_OUT:
                        _raise_timeout(retries, error)
                    if after is After.START_AGAIN:
                        return delay
                    if after is not After.COMMIT_AGAIN:
                        raise
                    newest = error
                    if delay:
                        try:
                            await self._core.sleep(delay)
                        except BaseException:  # cancelled, or the client was closed: the commit is not made
                            retries.repay()
                            raise
                else:
                    retries.repay()
                    return None
        finally:
            del newest  # whose traceback references this frame

    async def _committed(self, commit: Callable[[], Awaitable[T]], seconds: float | None = None) -> T:
        """Commit at the end of a block or a callback. If that is impossible, abort in `seconds` or the usual limit.

        `seconds`: None for a block.
        """
        try:
            return await commit()
        except InvalidOperation as refused:  # an operation is still running
            if self.in_transaction:
                await self._abort_after(refused, seconds)
            raise
        except PyMongoError as failed:
            # After a block, and where the label says that the result is unknown, the application may commit again.
            if seconds is not None and not failed.has_error_label(UNKNOWN_COMMIT_RESULT):
                self._leave_commit()
            raise
        except BaseException as failed:
            if not isinstance(failed, Exception):
                self._leave_commit()
            raise

    def _publish_start(self) -> None:
        """Publish the transaction, if there is one, with its first operation."""
        if self._published is None and self._state.in_transaction:
            self._published = PublishedPart("transaction", self._core, self._state)

    def _publish_end(self, error: BaseException | None = None) -> None:
        published, self._published = self._published, None
        if published is not None:
            published.end(error)

    def _deadline(self, timeout_ms: float | None) -> Deadline:
        """Return the deadline of an operation that ends a transaction."""
        if self._state.deadline is None:
            return time_limits.deadline(self._core, self._inherited_timeout(), timeout_ms)
        return time_limits.of_session(self._core, self._state.deadline, timeout_ms)

    def _inherited_timeout(self) -> float | None:
        default = self._options.defaultTimeoutMS
        return self._timeout if default is None else time_limits.duration_from_ms(default)

    def _default_seconds(self) -> float:
        seconds = self._inherited_timeout()
        return inf if seconds is None else seconds


def _raise_timeout(retries: TransactionRetries, error: BaseException) -> None:
    """Raise that time ran out, unless `error` says so itself."""
    instead = retries.timed_out(error)
    try:
        if instead is not error:
            raise instead from error
    finally:
        del instead, error  # whose tracebacks reference this frame, or one that this frame references


class TransactionContext:
    """The end of a transaction: ``async with session.start_transaction():`` commits, or aborts after an exception."""

    __module__ = "motorlite.client_session"

    __slots__ = ("_session",)

    def __init__(self, session: AsyncClientSession) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._session!r}>"

    def __await__(self) -> Generator[Any, None, Self]:
        """Return the same object: code written for PyMongo awaits `start_transaction`."""
        return self
        yield

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._session.in_transaction:
            self._session._publish_end()  # the client that was closed has aborted it
            return
        if error is not None:
            await self._session._abort_after(error)
            return
        await self._session._committed(self._session.commit_transaction)
