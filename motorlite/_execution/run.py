"""Pure: the state of one running operation, and of each of its attempts."""

from __future__ import annotations

from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from motorlite._base.error_documents import SYSTEM_OVERLOADED
from motorlite._base.values import Progress
from motorlite._retry import classification
from motorlite._retry.backoff import DEFAULT_RETRY_AFTER
from motorlite._retry.failure import Failure

if TYPE_CHECKING:
    from motorlite._admission.pool_queue import Request
    from motorlite._base.values import Address, Document
    from motorlite._connection.connection import Connection
    from motorlite._execution.pins import PinnedConnection
    from motorlite._execution.transactions import Part
    from motorlite._operations.contract import Call, Operation
    from motorlite._retry.decision import Retry
    from motorlite._retry.failure import TimeLimits
    from motorlite._sessions.session import ServerSession
    from motorlite._topology.selection import Selector
    from motorlite._topology.server_description import ServerDescription
    from motorlite._topology.topology import Server
    from motorlite.errors import PyMongoError


# The state of one running operation.

_operation_ids = count(1)


def new_operation_id() -> int:
    """Return an id for the command events of all attempts and batches of one operation."""
    return next(_operation_ids)


class Follower(Protocol):
    """What a run tells of its attempts, but for the first."""

    def attempt_failed(self, now: float) -> None:
        """Note that the attempt under way failed. Another one may follow."""
        ...

    def attempt_again(self, attempt: Attempt, now: float) -> None:
        """Note that `attempt` takes the place of one that failed."""
        ...


class _Defaults:
    """What few operations set: defaults of the class, which cost an operation nothing."""

    __slots__ = ()

    is_retry: bool = False
    _operation_id: int | None = None
    # Whether it has its session's turn, for whose end other operations wait.
    has_turn: bool = False
    # The failed attempt whose reply stands because no retry did better.
    standing: Failure | None = None
    # The time limits of the newest command, for its error.
    limits: TimeLimits | None = None
    # Loop time at which it first asked for a connection, as far as a wait queue needs it: set when it has to wait
    # or when an attempt fails.
    entered: float = inf
    # Set while somebody watches the client.
    followed: Follower | None = None


class Run(_Defaults):
    """State shared by the attempts of one operation."""

    __slots__ = (
        "__dict__",  # for what is in `_Defaults`; made when it is needed
        "call",
        "deprioritized",
        "ended_at",
        "operation",
        "part",
        "pin",
        "retry",
        "server_session",
        "source",
        "transaction_number",
    )

    def __init__(self, operation: Operation[Any], call: Call) -> None:
        self.operation: Operation[Any] = operation
        self.call: Call = call
        # From the caller's session or an implicit one. The first attempt acquires it, and retries keep both it and the
        # transaction number.
        self.server_session: ServerSession | None = None
        self.transaction_number: int | None = None
        # Servers that the next attempt avoids.
        self.deprioritized: tuple[Address, ...] = ()
        # Its part in the session's transaction, or None.
        self.part: Part | None = None
        # None until an attempt fails.
        self.retry: Retry | None = None
        # The connection pinned to the opened cursor, until the cursor takes it.
        self.pin: PinnedConnection | None = None
        # The server whose reply ended the operation.
        self.source: Address | None = None
        # Loop time at which the newest attempt returned its connection to the pool.
        self.ended_at: float | None = None

    @property
    def operation_id(self) -> int:
        """That of the call, or a new one. Only events, which few clients have, need it."""
        if self._operation_id is None:
            given = self.call.operation_id
            self._operation_id = next(_operation_ids) if given is None else given
        return self._operation_id

    @property
    def selector(self) -> Selector:
        """The servers that an attempt may use."""
        return self.operation.selector if self.part is None else self.part.selector

    def annotate(self, failure: Failure) -> None:
        """Annotate `failure`, which ends the operation, and the newest failure, which is its cause if it differs."""
        assert self.retry is not None
        self.retry.newest.annotate()
        self.describe(failure.annotate())

    def describe(self, error: PyMongoError) -> PyMongoError:
        """Annotate the error that ends the operation with the facts about all of its attempts."""
        assert self.retry is not None
        self.retry.describe(error)
        if self.part is not None:
            self.part.describe(error)
        return error


# The state of one attempt of an operation. State that outlives the attempt belongs to the run.

_NOT_SENT = Progress.NOT_SENT


class Attempt:
    """The state of one attempt.

    Every operation has one, and most of them set four attributes. So the others are only defaults of the class, and
    there is no constructor: it would take longer than all else that is done with the attempt.
    """

    server: Server | None = None
    # The server's description at selection time. The server may be reset while the operation waits to check out.
    description: ServerDescription | None = None
    connection: Connection | None = None
    # What waits for the connection, if nothing else does (`Pool.ask`).
    request: Request | None = None
    # Whether a transaction keeps the connection.
    is_pinned: bool = False
    # Loop time by which selection and checkout must finish; set when either has to wait.
    selection_until: float = inf
    # Loop times: when it began to wait for its turn, a server or a connection, and when it was about to send; if it
    # did.
    waited_from: float | None = None
    sent_at: float | None = None
    # Loop times between these two, where it waited more than once: when it had the token of its rate limit, and when it
    # asked for a connection.
    admitted_at: float | None = None
    asked_at: float | None = None
    # How far the attempt got; set when it fails.
    progress: Progress = _NOT_SENT
    # The phase to report if time ran out on the connection.
    phase: str | None = None
    # The reply with ok: 1 whose write concern error ended the attempt.
    reply: Document | None = None
    # The server replied with ok: 1, but decrypting the reply may still fail.
    is_executed: bool = False
    # Loop time at which that decryption began.
    replied_at: float | None = None
    # What it raised, until the retry loop takes it.
    error: Exception | None = None
    # The server required authentication, and the connection was authenticated again.
    is_reauthenticated: bool = False

    def waits(self, now: float) -> None:
        """Note that the attempt begins to wait, unless it has waited before."""
        if self.waited_from is None:
            self.waited_from = now

    def started_at(self, now: float) -> float:
        """When the attempt began. One that neither waited nor sent anything began just now."""
        if self.waited_from is not None:
            return self.waited_from
        return now if self.sent_at is None else self.sent_at

    def failed(self, run: Run, error: PyMongoError) -> Failure:
        """Return the failure of this attempt."""
        connection, server = self.connection, self.server
        limits, run.limits = run.limits, None
        wire_version = 0 if connection is None else connection.facts.max_wire_version
        phase = error.phase
        if error.timeout and run.call.deadline.is_set and self.phase is not None:
            # The socket's limit was the deadline. The server's limit was the maxTimeMS derived from it.
            phase = self.phase
        is_numbered = run.transaction_number is not None
        if connection is not None and wire_version:
            # With retryWrites=False, it would have had a number: the option is what prevents the retry.
            is_numbered = is_numbered or connection.facts.supports_retryable_writes
        else:
            # The attempt got no connection, so the server's monitored description decides.
            description = self.description
            is_numbered = description is not None and (is_numbered or description.retryable_writes_supported)
        labels, part = error.error_labels, run.part
        is_ordinary = classification.is_ordinary(run.operation, is_numbered=is_numbered)
        if part is not None:
            labels, is_ordinary = labels | part.added_labels(error, self.progress), part.is_retryable
        return Failure(
            error=error,
            progress=self.progress,
            address=error.address if server is None else server.address,
            wire_version=wire_version,
            phase=phase,
            labels=labels,
            is_ordinary=is_ordinary,
            is_transactional=part is not None and not is_ordinary,
            limits=limits,
            reply=self.reply,
            is_executed=self.is_executed,
            reauthenticated=(connection.address, connection.id) if connection and self.is_reauthenticated else None,
            retry_after=server.pool.retry_after() if server and SYSTEM_OVERLOADED in labels else DEFAULT_RETRY_AFTER,
        )


# Python fixes the table of attribute names that instances share with the first few of them. One that sets another name
# later gets a table of its own, of 200 bytes. Thousands may wait for a connection, so the first sets what these set.
_first = Attempt()
_first.server = _first.description = _first.request = _first.waited_from = _first.sent_at = _first.connection = None
