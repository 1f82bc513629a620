"""Shell: publishes the executor's events, and counts failures and retries for the client's statistics."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from motorlite._observe.publishing import CommandEvents
from motorlite._retry.decision import Again
from motorlite.errors import PyMongoError, detached
from motorlite.monitoring import (
    DegradedEvent,
    OperationFailedEvent,
    OperationStartedEvent,
    OperationSucceededEvent,
    RetryEvent,
)
from motorlite.read_preferences import ServerMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sized

    from motorlite._base.values import Address
    from motorlite._connection.connection import Connection
    from motorlite._execution.run import Attempt, Run
    from motorlite._execution.watching import Followed, Watch
    from motorlite._observe.publishing import Publisher, Publishers
    from motorlite._operations.contract import Command
    from motorlite._retry.decision import Raise, Retry
    from motorlite._sessions.session import Session
    from motorlite.errors import AdmissionError
    from motorlite.monitoring import CommandEvent, OperationEvent
    from motorlite.overload import CallBlock
    from motorlite.retry import RetryBudget


class Reports:
    """The event publishers of one client's operations. A publisher is false without listener and enabled logger."""

    def __init__(self, bucket: RetryBudget | None, publishers: Publishers) -> None:
        self._bucket = bucket
        # Every command reads these, so they are attributes here.
        self.publish_command: Callable[[CommandEvent], None] | None = publishers.command
        self.publish_operation: Callable[[OperationEvent], None] | None = publishers.operation
        self.publish_selection: Publisher | None = publishers.selection
        self._publish_retry: Callable[[RetryEvent | DegradedEvent], None] | None = publishers.retry
        # True if each operation is of interest: the publisher, or in its place the watch while there is one.
        self.follows: object = publishers.operation
        self.watch: Watch | None = None
        # Empty when a logger's level has changed; then `refresh` is due.
        self.levels: Sized = publishers.levels
        self.refresh: Callable[[], None] = publishers.refresh
        # Number of operations that raised an error of the driver or the server.
        self.failures: int = 0
        # Counts by reason.
        self.retries: dict[str, int] = {}
        self.refusals: dict[str, int] = {}
        # Operations answered by the fallback of their call.
        self.degraded_count: int = 0

    def operation(
        self,
        name: str,
        database: str,
        collection: str | None,
        operation_id: int,
        now: float,
        session: Session | None = None,
    ) -> PublishedOperation:
        """Publish that an operation begins, as a part of what its session is in."""
        assert self.publish_operation is not None
        published = PublishedOperation(self.publish_operation, (name, database, collection, operation_id), now)
        parent_id = None if session is None else session.enclosing
        self.publish_operation(OperationStartedEvent(name, database, collection, operation_id, parent_id))
        return published

    def several(
        self,
        name: str,
        database: str,
        collection: str | None,
        operation_id: int,
        now: float,
        session: Session | None,
    ) -> PublishedOperation | Followed | None:
        """Publish that an operation of several commands begins."""
        published = None
        if self.publish_operation:
            published = self.operation(name, database, collection, operation_id, now, session)
        watch = self.watch
        if watch is None:
            return published
        followed = watch.started_several(name, database, collection, operation_id, now)
        followed.published = published
        return followed

    def started(self, run: Run, attempt: Attempt, now: float) -> PublishedOperation | Followed | None:
        """Publish that the operation of `run` begins, unless it is a part of one that has published its start."""
        watch = self.watch
        if run.call.operation_id is not None:
            if watch is not None:
                watch.started_part(run.call.operation_id, run, attempt, now)
            return None
        published = None
        if self.publish_operation:
            operation = run.operation
            names = (operation.operation_name or operation.name, operation.database, operation.collection_name)
            published = self.operation(*names, run.operation_id, now, run.call.session)
        return published if watch is None else watch.started(run, attempt, now, published)

    def begin_watch(self) -> Watch:
        """Follow each operation that begins from now on. Call from any thread."""
        if self.watch is None:
            from motorlite._execution.watching import Watch

            self.watch = self.follows = Watch()
        return self.watch

    def end_watch(self) -> None:
        """Follow no operation that begins from now on. Call from any thread."""
        self.follows = self.publish_operation
        self.watch = None

    def failed(self, published: PublishedOperation | Followed | None, error: BaseException, now: float) -> None:
        """Count an operation that raises `error`, and publish its end. `published` is None without listeners."""
        if isinstance(error, PyMongoError):
            self.failures += 1
        if published is not None:
            published.failed(error, now)

    def command(
        self, run: Run, command: Command, connection: Connection, request_id: int, now: float
    ) -> PublishedCommand:
        """Publish that `command` is about to be written."""
        handshake = connection.handshake
        events = CommandEvents(
            command.name,
            command.document,
            request_id,
            run.operation_id,
            connection.address,
            handshake.server_connection_id,
            connection.id,
            handshake.service_id,
        )
        assert self.publish_command is not None
        self.publish_command(events.started(command.document, command.sequences))
        return PublishedCommand(events, self.publish_command, connection.address, now)

    def decided(self, run: Run, retry: Retry, decision: Again | Raise) -> None:
        """Publish and count the decision after a failed attempt."""
        permitted = isinstance(decision, Again)
        if permitted:
            self.retries[decision.reason] = self.retries.get(decision.reason, 0) + 1
        elif decision.refusal is not None:
            self.refusals[decision.refusal] = self.refusals.get(decision.refusal, 0) + 1
        else:
            return  # no rule covers this error, so nothing was refused
        if not self._publish_retry:
            return
        failure = retry.newest
        error = failure.annotate(detached(failure.error))
        if not isinstance(decision, Again) and decision.failure.error is failure.error:
            retry.describe(error)
        self._publish_retry(
            RetryEvent(
                run.operation.name,
                run.operation_id,
                permitted=permitted,
                reason=str(decision.reason),
                rule=None if decision.rule is None else str(decision.rule),
                refusal=None if decision.refusal is None else str(decision.refusal),
                delay=decision.delay,
                attempt=retry.attempts - 1 if permitted else retry.attempts,
                tokens=self._bucket.tokens if self._bucket is not None else inf,
                address=failure.address,
                error=error,
                deprioritized=decision.deprioritize,
            )
        )

    def degraded(self, run: Run, block: CallBlock, error: AdmissionError) -> None:
        """Publish and count that the fallback of `block` answered an operation that was refused with `error`."""
        self.degraded_count += 1
        block.degraded += 1
        if self._publish_retry:
            fallback = block.fallback
            preference = fallback if isinstance(fallback, ServerMode) else None
            self._publish_retry(DegradedEvent(run.operation.name, run.operation_id, preference, error))


class PublishedOperation:
    """An operation whose start event is published. Publishes its end event."""

    __slots__ = ("_names", "_publish", "_started_at")

    def __init__(
        self, publish: Callable[[Any], None], names: tuple[str, str, str | None, int], started_at: float
    ) -> None:
        self._publish, self._names, self._started_at = publish, names, started_at

    def succeeded(self, now: float) -> None:
        """Publish that the operation returns its result."""
        self._publish(OperationSucceededEvent(now - self._started_at, *self._names))

    def failed(self, error: BaseException, now: float) -> None:
        """Publish that the operation raises `error`."""
        self._publish(OperationFailedEvent(now - self._started_at, error, *self._names))


class PublishedCommand:
    """A command whose start event is published. Publishes its end event."""

    __slots__ = ("_address", "_events", "_publish", "_started_at")

    def __init__(
        self, events: CommandEvents, publish: Callable[[Any], None], address: Address, started_at: float
    ) -> None:
        self._events, self._publish = events, publish
        self._address, self._started_at = address, started_at

    def succeeded(self, reply: Mapping[str, Any], now: float) -> None:
        """Publish that the server replied with ``ok: 1``. Unacknowledged writes pass a made-up reply."""
        self._publish(self._events.succeeded(now - self._started_at, reply))

    def failed(self, error: BaseException, now: float) -> None:
        """Publish that the server replied with an error, or that no reply arrived."""
        if isinstance(error, PyMongoError) and error.address is None:
            error = detached(error)
            error.address = self._address
        self._publish(self._events.failed(now - self._started_at, error))
